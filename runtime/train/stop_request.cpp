#include "runtime/train/stop_request.h"

#include <atomic>
#include <csignal>

namespace muster {
namespace {

std::atomic<bool> requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set inside a signal handler");

void on_signal(int) {
  requested.store(true);
}

}  // namespace

void install_stop_handler() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() {
  return requested.load();
}

}  // namespace muster

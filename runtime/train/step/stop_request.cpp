#include "runtime/train/step/stop_request.h"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>

#include "runtime/protocol/lease.h"

namespace muster {
namespace {

sigset_t only_sigterm() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  return signals;
}

// Between waking up after a standstill and the next write there is a step, or part of one.
constexpr std::chrono::milliseconds lease_look_pause{50};

std::optional<Lease>& held_lease() {
  static std::optional<Lease> lease;
  return lease;
}

}  // namespace

void hold_back_sigterm() {
  const sigset_t signals = only_sigterm();
  std::signal(SIGTERM, SIG_DFL);  // an ignored signal would never be pending
  sigprocmask(SIG_BLOCK, &signals, nullptr);
}

EndOnSigterm::EndOnSigterm()
    : watcher_([](const std::stop_token& ended) {
        const sigset_t signals = only_sigterm();
        constexpr timespec look_again{0, 20'000'000};
        while (!ended.stop_requested()) {
          if (sigtimedwait(&signals, nullptr, &look_again) != SIGTERM) continue;
          std::fputs("muster-train: stopped by SIGTERM before the first step\n", stderr);
          std::_Exit(exit_after_sigterm);
        }
      }) {}

bool stop_requested() {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGTERM) == 1;
}

void sleep_unless_stopped(std::chrono::milliseconds duration) {
  using Clock = std::chrono::steady_clock;
  constexpr auto slice = std::chrono::milliseconds(50);
  const auto end = Clock::now() + duration;
  while (!stop_requested()) {
    const auto left = end - Clock::now();
    if (left <= left.zero()) return;
    std::this_thread::sleep_for(std::min<Clock::duration>(left, slice));
  }
}

bool hold_lease(const std::string& path) {
  held_lease() = Lease::open(path);
  return held_lease().has_value();
}

bool lease_is_over() {
  return held_lease() && boot_time() > held_lease()->until();
}

EndWithLease::EndWithLease()
    : watcher_([](const std::stop_token& ended) {
        std::mutex mutex;
        std::condition_variable_any end;
        std::unique_lock lock(mutex);
        const auto is_ended = [&] { return ended.stop_requested(); };
        while (!end.wait_for(lock, ended, lease_look_pause, is_ended)) {
          if (!lease_is_over()) continue;
          std::fprintf(stderr, "muster-train: %s\n", lease_complaint);
          std::_Exit(exit_after_sigterm);
        }
      }) {}
}  // namespace muster

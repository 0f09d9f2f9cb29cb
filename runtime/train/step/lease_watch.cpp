#include "runtime/train/step/lease_watch.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "runtime/protocol/lease.h"
#include "runtime/train/step/stop_request.h"

namespace muster {

namespace {

// Between waking up after a standstill and the next write there is a step, or part of one.
constexpr std::chrono::milliseconds lease_look_pause{50};

std::optional<Lease>& held_lease() {
  static std::optional<Lease> lease;
  return lease;
}

}  // namespace

bool hold_lease(const std::string& path) {
  held_lease() = Lease::open(path);
  return held_lease().has_value();
}

bool lease_is_over() {
  return held_lease() && boot_time() > held_lease()->until();
}

EndWithLease::EndWithLease()
    : watcher_([this] {
        std::unique_lock lock(mutex_);
        while (!ended_.wait_for(lock, lease_look_pause, [this] { return over_; })) {
          if (!lease_is_over()) continue;
          std::fprintf(stderr, "muster-train: %s\n", lease_complaint);
          std::_Exit(exit_after_sigterm);
        }
      }) {}

EndWithLease::~EndWithLease() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  watcher_.join();
}

}  // namespace muster

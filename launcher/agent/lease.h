// How long the agent lets ranks run: so long after the newest word of its own that the controller
// is known to have got. The controller counts from a later moment and longer, so that it never
// believes ranks dead that still run. Pure; time is an input.
#pragma once

#include <algorithm>
#include <chrono>

#include "runtime/protocol/boot_clock.h"

namespace muster {

class AgentLease {
 public:
  explicit AgentLease(BootTime now) : heard_at_(now) {}

  // The controller has got what the agent sent at `stamp`.
  void heard(BootTime stamp, BootTime now) {
    // A stamp of the future is no word of this agent's.
    heard_at_ = std::max(heard_at_, std::min(stamp, now));
    lease_ = agreed_;
  }
  // A controller greets and says how long its lease is. A shorter one may be over already, counted
  // from the last word that was heard: it counts from here, as far as the earlier one lasts. A
  // longer one counts from the first word that is heard: before, the answer to this greeting may be
  // lost, and the controller go on counting the earlier one.
  void greeted(std::chrono::milliseconds lease, BootTime now) {
    agreed_ = lease;
    if (lease >= lease_) return;
    spared_until_ = std::min(end(), now + lease);
    lease_ = lease;
  }

  BootTime end() const { return std::max(heard_at_ + lease_, spared_until_); }
  std::chrono::milliseconds agreed() const { return agreed_; }

 private:
  // For a controller that has not said yet how long its lease is.
  static constexpr std::chrono::seconds first_lease{60};

  BootTime heard_at_;
  std::chrono::milliseconds lease_{first_lease};
  std::chrono::milliseconds agreed_{first_lease};  // `lease_`, or a longer one
  BootTime spared_until_{0};  // whatever the lease: a shorter one has just begun to count
};

}  // namespace muster

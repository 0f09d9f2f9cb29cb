#include "launcher/agent/lease.h"

#include <algorithm>

namespace muster {

// A stamp of the future is no word of this agent's.
void AgentLease::heard(BootTime stamp, BootTime now) {
  heard_at_ = std::max(heard_at_, std::min(stamp, now));
}

void AgentLease::greeted(std::chrono::milliseconds lease, BootTime now) {
  spared_until_ = std::min(end(), now + lease);
  lease_ = lease;
}

BootTime AgentLease::end() const {
  return std::max(heard_at_ + lease_, spared_until_);
}

}  // namespace muster

#include "launcher/controller/agents/host_clock.h"

#include <string>

#include "health/checks/host/facts.h"

namespace muster {

std::optional<ClockInterval> on_this_host(const std::optional<Interval>& interval_us) {
  static const std::string boot = read_boot_id();
  if (!interval_us) return std::nullopt;
  return ClockInterval{interval_us->least, interval_us->most, boot};
}

}  // namespace muster

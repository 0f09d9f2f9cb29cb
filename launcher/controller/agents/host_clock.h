// Intervals of this host's raw_time() as the journal has them: with the name of the clock, so that
// those from before a reboot, or of another host that had the same state directory, are told apart.
#pragma once

#include <optional>

#include "launcher/controller/agents/clock_offset.h"
#include "scheduler/model/outcome.h"

namespace muster {

std::optional<ClockInterval> on_this_host(const std::optional<Interval>& interval_us);

}  // namespace muster

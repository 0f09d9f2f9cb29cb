// Whether those who watch a node are alive themselves: its agent, and the helper that asks NVML.
#pragma once

#include <optional>

#include "health/model/finding.h"
#include "health/model/profile.h"
#include "scheduler/text/clock.h"

namespace muster {

// `age` of the latest heartbeat; nothing: there was none. Unknown when it is old, and a failure
// when it is three times as old.
HealthFinding judge_agent(std::optional<Milliseconds> age, const HealthProfile& profile);

struct HelperFacts {
  // Since it was killed without the kernel giving it up, which a hanging driver keeps it from.
  std::optional<Milliseconds> unreaped;
  int restarts = 0;  // in the latest hour
};
HealthFinding judge_helper(const HelperFacts& facts, const HealthProfile& profile);

}  // namespace muster

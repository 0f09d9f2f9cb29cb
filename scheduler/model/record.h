// The journal's vocabulary. An Observation is what the world told us, a Decision is what we chose;
// a Record is either, with its time. `apply` is the only reader that changes State. Plain values.
//
// Each struct has a stable `kind` (the name in the journal) and lists its fields once in `fields`.
// A new field must be optional in meaning: older journals lack it and read as the default here.
#pragma once

#include <variant>

#include "scheduler/model/clock.h"
#include "scheduler/model/decision.h"
#include "scheduler/model/observation.h"

namespace muster {

struct Record {
  Time at;
  std::variant<Observation, Decision> what;
};

}  // namespace muster

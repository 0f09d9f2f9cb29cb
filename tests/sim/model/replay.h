// Does today's `decide` agree with a recorded run? Replays a whole journal through `apply` and asks
// `decide` wherever a decision was recorded.
#pragma once

#include <string>
#include <vector>

#include "scheduler/state/state.h"

namespace muster {

struct Disagreement {
  std::size_t index = 0;  // of the record
  std::string recorded;
  std::string decided;  // empty: nothing would be decided
};

struct Replay {
  State state;  // after the last record
  std::vector<Disagreement> disagreements;
};

Replay replay(const std::vector<Record>& journal);

}  // namespace muster

// What a node's sources say that stays the same while it is healthy, for a profile of its kind.
// Pure: one reading of all sources goes in. A fact that was not read, or that the node's devices do
// not agree about, is left out and said, for what a profile leaves out is never judged.
#pragma once

#include <string>
#include <vector>

#include "health/learn/profile.h"
#include "health/read/reader_protocol.h"

namespace muster {

struct LearnedNode {
  LearnedFacts facts;
  std::vector<std::string> left_out;  // "gpu.ecc: gpu3 says 0, gpu0 says 1"
};

// What facts_of wants to be read.
NodeReadRequest learning_request();

LearnedNode facts_of(const NodeReadings& readings, std::string profile_name);

}  // namespace muster

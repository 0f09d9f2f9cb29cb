// Plays one case of the corpus on a fake node with simulated time, and compares what was said with
// what must be.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "health/model/profile.h"
#include "tests/health/corpus_case.h"
#include "tests/health/simulated_agent.h"

namespace muster {

// What became of one expectation.
struct CorpusAnswer {
  std::string what;        // "gpu.xid gpu3 !reset"
  bool is_urgent = false;  // evicts, resets, reboots or sends back
  bool is_found = false;   // a fault of the check stood, on whatever device
  bool has_device = false;
  bool has_severity = false;  // and class, and in time
  std::string said;           // instead
};

struct CorpusOutcome {
  std::vector<CorpusAnswer> answers;
  std::vector<std::string> wrong;  // what must not be said and was; what could not be played
};

// A line of a case's profile: `limit CHECK NAME NUMBER`, `mode CHECK MODE`, `require CHECK`,
// `mount PATH`, `host KEY VALUE`.
bool change_profile(HealthProfile& profile, FakeNode& node, const std::string& line);

CorpusOutcome play_corpus_case(const CorpusCase& one, const HealthProfile& profile);

}  // namespace muster

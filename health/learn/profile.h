// A profile from a node that is known to be good: each check learns what it compares with. Pure:
// one reading of all sources goes in. What nobody read or measured stays out of the profile, and so
// is not judged.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "health/model/profile.h"
#include "health/read/reader_protocol.h"

namespace muster {

struct LearnedProfile {
  HealthProfile profile;
  std::vector<std::string> left_out;  // "gpu.ecc: gpu3 says 0, gpu0 says 1"
};

// What learn_profile wants to be read.
NodeReadRequest learning_request();

LearnedProfile learn_profile(const NodeReadings& readings, std::string profile_name);

// Two nodes that are both good differ by less.
inline constexpr double learned_margin_pct = 5;
// `measured`: by floor, "p2p_gb_per_s".
void learn_floors(const std::map<std::string, double>& measured, HealthProfile& profile);

}  // namespace muster

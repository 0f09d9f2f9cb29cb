// What the performance checks measure and how a number is judged: by the profile's floor of its
// name, by the fleet. Floors age, and a fleet
// has no view of a slowdown that all nodes share: where there are both, both must hold. How far
// from the fleet is too far stands with the metric, unless the profile has rules for its check. Of
// counted faults none is right, whoever says what. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/model/profile_floor.h"

namespace muster {

// One number that a tool printed, or why there is none.
struct PerformanceSample {
  std::string metric;  // "p2p_gb_per_s"
  std::string device;  // "gpu2"; empty: the node
  std::optional<double> value;
  std::string error;       // of no value
  bool is_absent = false;  // for what measures it is not there: a matter of the node's setup
  std::string note{};      // of counted faults: which
  bool is_slight = false;  // they are worth a warning and no more
};

// The same metric elsewhere.
struct PerformancePeers {
  std::optional<double> fleet_median;  // over the nodes of this kind
  int fleet_nodes = 0;
};

// A median of fewer says little.
inline constexpr int fleet_min_nodes = 8;

// Nothing when neither a floor, a rule nor a peer says what is right, and it is no count of faults.
std::optional<HealthFinding> judge_performance(const HealthProfile& profile,
                                               const PerformanceSample& sample,
                                               const PerformancePeers& peers);

}  // namespace muster

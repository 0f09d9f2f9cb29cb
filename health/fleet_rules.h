// The profile's rules `all_equal` and `majority`: what nodes of one kind tell of a check or
// measure, compared. Who differs from more than half of the others has its rule's severity against
// it; where no value has so many, nobody is blamed. Pure.
//
// Texts are the same letter by letter; of several devices of a node, all their values. Figures, of
// a node the median of its devices, are the same when they are no further apart than the distance
// from the median that their metric allows (profile_floor.h: 5 %, products 7 %, disks 20 %).
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "health/model/finding.h"
#include "health/model/performance.h"
#include "health/model/profile.h"

namespace muster {

// Of two that differ either may be right.
inline constexpr std::size_t majority_nodes_min = 3;

struct FleetNode {
  std::vector<HealthFinding> findings;     // of checks that read
  std::vector<PerformanceSample> figures;  // of probes
};

// What is near to it is the same; `nodes` have another one.
struct FigureMajority {
  double value = 0;
  std::vector<std::string> differing;
};

// The value that has the most others within `percent` of it; nothing when they are not more than
// half, or there is none. Numbers that are not finite count for nothing.
std::optional<FigureMajority> figure_majority(const std::map<std::string, double>& by_node,
                                              double percent);

// By node, a finding for each rule and what it compares. Of a node that does not tell what others
// do: unknown. Nothing of what no node tells, nor with one node alone, of `majority` with fewer
// than majority_nodes_min.
std::map<std::string, std::vector<HealthFinding>> judge_fleet_rules(
    const HealthProfile& profile, const std::map<std::string, FleetNode>& by_node);

}  // namespace muster

// What only many nodes together show: a version that one of them has alone, a bandwidth below that
// of the others. Pure functions over one value of each node, by the node's name.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/finding.h"

namespace muster {

// With fewer nodes a median is too easily that of the bad ones.
inline constexpr std::size_t median_nodes_min = 8;

struct Majority {
  std::string value;                   // of more than half of the nodes
  std::vector<std::string> differing;  // nodes that have another one
};

// Nothing when no value has more than half of the nodes, or there are no nodes.
std::optional<Majority> majority_of(const std::map<std::string, std::string>& by_node);

// Of the finite values; the mean of the two middle ones when their count is even.
std::optional<double> median_of(std::vector<double> values);

// Nodes that are more than `percent` below the median; none with fewer than median_nodes_min.
std::vector<std::string> below_median(const std::map<std::string, double>& by_node, double percent);

// What one node says of itself, by what it is: "kernel" -> "6.1.0".
using Facts = std::map<std::string, std::string>;

// One finding for each node: fails for the facts in which it differs from the majority. A fact that
// it does not tell is none; without a majority it is unknown.
std::map<std::string, HealthFinding> judge_majority(std::string_view check,
                                                    const std::map<std::string, Facts>& by_node);

}  // namespace muster

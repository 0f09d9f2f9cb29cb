// What only many nodes together show: a version that one of them has alone. Pure functions over
// one value of each node, by the node's name.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/finding.h"

namespace muster {

// Of the finite values; the mean of the two middle ones when their count is even.
std::optional<double> median_of(std::vector<double> values);

// What one node says of itself, by what it is: "kernel" -> "6.1.0".
using Facts = std::map<std::string, std::string>;

// One finding for each node: fails for the facts in which it differs from the majority. A fact that
// it does not tell is none; without a majority it is unknown.
std::map<std::string, HealthFinding> judge_majority(std::string_view check,
                                                    const std::map<std::string, Facts>& by_node);

}  // namespace muster

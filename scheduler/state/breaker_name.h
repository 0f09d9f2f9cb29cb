// The name of a health check's breaker: "ib.phys@lab", of the check on the nodes of one target;
// "ib.phys@", on nodes that no live job's target has; "ib.phys", wherever: what a person may say to
// arm them all, and what journals from before there was one for each target say. Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "scheduler/state/state.h"

namespace muster {

std::string breaker_name(std::string_view check, std::string_view target);

// "ib.phys"
std::string_view check_of_breaker(std::string_view name);

// What arms `said` arms `name` too: "ib.phys" that of each target.
bool names_breaker(std::string_view said, std::string_view name);

// Names of the live jobs' targets that have the node.
std::set<std::string> targets_of(const State& state, const NodeId& node);

// Whether it is about nodes of these targets. Of no target: one of no target.
bool is_breaker_of(std::string_view name, const std::set<std::string>& targets);

}  // namespace muster

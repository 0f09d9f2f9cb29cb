// The circuit breaker of health checks: one that would drain too many nodes of a target within its
// window has found one fault of storage, network or power. It then drains none of that target until
// a person arms it again. How many are too many says the target's health profile. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/state/turn.h"

namespace muster {

// Whether the fault calls for a drain of the node at all, breakers apart.
bool calls_for_drain(const Node& node, const NodeFault& fault);

// The check's breaker is open for a target of the node, or what it found then was found before a
// person armed it again. Of a node that no live job's target has: for any target, as it may be one
// of them, and nothing waits for its drain.
bool is_withheld(const Turn& turn, const Node& node, const NodeFault& fault);

// It was found before a person armed the check again for the node's target: it counts no more.
bool is_rearmed_since(const State& state, const NodeId& node, const NodeFault& fault);

// Checks whose breaker is open for the target, each once.
std::vector<std::string> checks_withheld(const State& state, const std::string& target);
// For a target of the node, as is_withheld says.
std::vector<std::string> checks_withheld_on(const State& state, const NodeId& node);

// A fault with a cause that nodes share is acted on when all of them have had time to tell of it,
// unless a job cannot go on with it.
bool has_settled(Turn& turn, const Node& node, const NodeFault& fault);

// To be decided instead of the node's drain; nothing: it may be drained.
std::optional<BreakerOpened> breaker_against(const Turn& turn, const Node& node,
                                             const NodeFault& fault);

}  // namespace muster

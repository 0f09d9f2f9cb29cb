// Health checks' verdicts on nodes: which fault drains a node, when that is over, and how a check
// that would drain too many at once is kept from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/state/turn.h"

namespace muster {

// For every node whose agent has told of faults.
void handle_faults(Turn& turn);

// When a node that is drained for a fault is looked at, or takes jobs, again; empty: it is not.
std::string next_look_text(const Node& node, Time now);

// "h02: XID 79 on gpu3: the GPU has fallen off the bus (gpu.xid, needs a reboot)"
std::string fault_text(const NodeFaulted& fault);

// The first since the launch that the job cannot go on with, on any node or on this one.
const NodeFaulted* stopping_fault(const Attempt& attempt, const NodeId* node = nullptr);

// The circuit breaker of health checks: one that would drain too many nodes of a target within its
// window has found one fault of storage, network or power. It then drains none of that target until
// a person arms it again. How many are too many says the target's health profile. Pure.

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

// What is called for when a fault comes again after its remedy: reset > reboot > repair. Only a
// node's own fault climbs; what is counted follows the board to another host.
#pragma once

#include <string_view>
#include <vector>

#include "scheduler/state/state.h"

namespace muster {

// With the remedy that is due after all that was done before.
NodeFault climbed(const State& state, const NodeId& node, NodeFault fault);

// The fault asked for something: counts from now on, once, however often it is told. `owner`: whose
// the node was, by the record and not by State, of which a restart knows the live jobs alone; `at`:
// of the record. What is too old, or too much, goes.
void remember_remedy(State& state, const NodeId& node, const NodeFault& fault,
                     const std::optional<JobId>& owner, Time at);

// What a check asked for after then was no board's fault. Those are the drains that its breaker
// counted, however old their faults were. `nodes`: null for all.
void forget_remedies(State& state, std::string_view check, Time since,
                     const std::vector<NodeId>* nodes);

}  // namespace muster

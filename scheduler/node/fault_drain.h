// Health checks' verdicts on nodes: which fault drains a node, when that is over, and how a check
// that would drain too many at once is kept from it.
#pragma once

#include <string>

#include "scheduler/state/turn.h"

namespace muster {

// For every node whose agent has told of faults.
void handle_faults(Turn& turn);

// "h02: XID 79 on gpu3: the GPU has fallen off the bus (gpu.xid, needs a reboot)"
// When a node that is drained for a fault is looked at, or takes jobs, again; empty: it is not.
std::string next_look_text(const Node& node, Time now);

std::string fault_text(const NodeFaulted& fault);

// The first since the launch that the job cannot go on with, on any node or on this one.
const NodeFaulted* stopping_fault(const Attempt& attempt, const NodeId* node = nullptr);

}  // namespace muster

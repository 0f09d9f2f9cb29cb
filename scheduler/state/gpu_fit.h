// GPUs: what a job asks of each of its nodes, whether a node has them, and how many ranks a node
// gets for them. A node's number is what its agent counted when it connected.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/state/state.h"

namespace muster {

// "has no GPU", "has 2 GPUs, 4 are asked for"; absent: it has enough.
std::optional<std::string> gpu_shortage(const JobSpec& spec, const LinkUp& agent);

// The ranks that the node would get now.
int processes_on(const State& state, const JobSpec& spec, const NodeId& node);
// Those of each node, for its launch: where every GPU gets one, and of an elastic attempt, whose
// nodes are counted on. Empty where the job file says it all.
std::vector<int> processes_at_launch(const State& state, const JobSpec& spec,
                                     const Attempt& attempt);

// How many ports it has to hold (rank_map.h: ports_on_node).
int ports_wanted(const State& state, const Job& job, const Attempt& attempt,
                 std::size_t node_index);

}  // namespace muster

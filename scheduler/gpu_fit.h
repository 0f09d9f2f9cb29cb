// GPUs: what a job asks of each of its nodes, whether a node has them, and how many ranks a node
// gets for them. A node's number is what its agent counted when it connected.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/state.h"

namespace muster {

// "has no GPU", "has 2 GPUs, 4 are asked for"; absent: it has enough.
std::optional<std::string> gpu_shortage(const JobSpec& spec, const LinkUp& agent);

// The ranks of each node where every GPU gets one; empty where the job file says the number.
std::vector<int> processes_by_gpus(const State& state, const JobSpec& spec, const Attempt& attempt);

}  // namespace muster

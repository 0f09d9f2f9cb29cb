// Which processes a job has and where they go: ranks are dense by node, and a replacement takes
// over its index. Every node has the same number of them, or one for each of its GPUs.
// tensorflow deals its workers, then its parameter servers, round robin over the nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/state/state.h"

namespace muster {

enum class TaskRole { rank, worker, parameter_server };

struct RankPlace {
  RankId rank;
  int node_index = 0;
  int local_rank = 0;
  TaskRole role = TaskRole::rank;
  int role_index = 0;  // among its role (tensorflow), else the rank
};

// Index = rank. `nodes` is the number of nodes of the attempt, at least 1.
std::vector<RankPlace> rank_map(const Distribution& distribution, int nodes);
// With so many ranks on each node; none given: as above.
std::vector<RankPlace> rank_map(const Distribution& distribution, int nodes,
                                const std::vector<int>& processes);

int ranks_on_node(const std::vector<RankPlace>& map, int node_index);

// mpirun starts the ranks, and ends those that are left when one fails.
bool runs_mpirun(const JobSpec& spec);

// Ranks start a Ray cluster before the command, which runs on node 0 alone.
bool starts_ray(const JobSpec& spec);

// The variable family is there by the distribution's type or by `muster.env.export` (`torch`,
// `ompi`, `slurm`).
bool exports_family(const JobSpec& spec, const char* family);

// How many ports a node must hold for the attempt: one for each process of the node (tensorflow,
// and elastic jobs: `processes` of them), then on node 0 one for the torch rendezvous, unless the
// job names its port, or two for Ray's head. None where nobody meets.
int ports_on_node(const JobSpec& spec, int nodes, int node_index, int processes);

// GPUs: what a job asks of each of its nodes, whether a node has them, and how many ranks a node
// gets for them. A node's number is what its agent counted when it connected.

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

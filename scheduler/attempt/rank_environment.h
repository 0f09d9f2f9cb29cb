// The environment of one rank: the conventions of torch, Open MPI, TensorFlow and Azure ML, by
// distribution type and `muster.env.export`; then the job's own environment_variables, which win.
//
// Every rank of an elastic job has MUSTER_MEMBER_PORT: one of the node's ports, by its local rank.
//
// What only the agent knows is the agent's to add: MUSTER_CHECKPOINT_DIR, MUSTER_RESUME_FROM,
// MUSTER_HEARTBEAT, MUSTER_METRICS, AZUREML_PARAMETER_<name> and the directories of outputs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/state/rank_map.h"

namespace muster {

struct NodeFacts {
  NodeId id;
  std::string address;  // as the other nodes reach it
  int cores = 1;
  std::vector<int> ports;  // held for the attempt: see `ports_on_node`
};

using Environment = std::map<std::string, std::string>;

// A node that starts its ranks while others train: they see the members and themselves.
struct Joiner {
  int node_index = 0;
  std::vector<RankId> members;  // Members::ranks then
};

// The variables of all ranks of an attempt. `nodes`: index = node rank. `processes` is Attempt's.
// What names every node is as long as the gang, so it is made once. Refers to `spec` and `job`.
struct GangVariables {
  GangVariables(const JobSpec& job_spec, const JobId& job_id, AttemptId attempt_id,
                std::vector<NodeFacts> facts, const std::vector<int>& processes,
                const std::optional<Joiner>& joiner = {});
  Environment shared() const;        // the same for every rank; of a joiner, for those of its node
  Environment own(RankId id) const;  // the rest; it must be one of the job's

  const JobSpec& spec;
  const JobId& job;
  AttemptId attempt;
  std::vector<NodeFacts> nodes;
  std::vector<RankPlace> map;
  RankPlace leader;          // the first of the ranks that meet
  std::size_t world = 0;     // how many they are
  std::vector<int> present;  // indices of their nodes, rising
};

}  // namespace muster

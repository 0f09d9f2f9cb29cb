// The environment of one rank: the conventions of torch, Open MPI, TensorFlow and Azure ML, by
// distribution type and `muster.env.export`; then the job's own environment_variables, which win.
//
// What only the agent knows is the agent's to add: MUSTER_CHECKPOINT_DIR, MUSTER_RESUME_FROM,
// MUSTER_HEARTBEAT, MUSTER_METRICS, AZUREML_PARAMETER_<name> and the directories of outputs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "scheduler/model/state.h"

namespace muster {

struct NodeFacts {
  NodeId id;
  std::string address;  // as the other nodes reach it
  int cores = 1;
  std::vector<int> ports;  // held for the attempt: see `ports_on_node`
};

// `nodes`: index = node rank. `rank` must be one of the job's.
std::map<std::string, std::string> rank_variables(const JobSpec& spec, const JobId& job,
                                                  AttemptId attempt,
                                                  const std::vector<NodeFacts>& nodes,
                                                  RankId rank);

}  // namespace muster

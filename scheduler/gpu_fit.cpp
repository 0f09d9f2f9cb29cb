#include "scheduler/gpu_fit.h"

#include "scheduler/lookup.h"
#include "scheduler/sentences.h"

namespace muster {

namespace {

// Of each node; ranks that are as many as the GPUs are at least one.
int gpus_wanted(const JobSpec& spec) {
  return spec.muster.nodes_gpus.value_or(spec.distribution.process_per_gpu ? 1 : 0);
}

}  // namespace

std::optional<std::string> gpu_shortage(const JobSpec& spec, const LinkUp& agent) {
  const int wanted = gpus_wanted(spec);
  if (agent.gpus >= wanted) return std::nullopt;
  if (agent.gpus == 0) return "has no GPU";
  return "has " + count_text(static_cast<std::size_t>(agent.gpus), "GPU") + ", " +
         std::to_string(wanted) + " are asked for";
}

std::vector<int> processes_by_gpus(const State& state, const JobSpec& spec,
                                   const Attempt& attempt) {
  std::vector<int> processes;
  if (!spec.distribution.process_per_gpu) return processes;
  for (const AttemptNode& node : attempt.nodes) {
    const LinkUp* agent = linked_agent(state, node.id);
    processes.push_back(agent ? agent->gpus : 0);
  }
  return processes;
}

}  // namespace muster

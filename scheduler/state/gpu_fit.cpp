#include "scheduler/state/gpu_fit.h"

#include <algorithm>

#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/rank_map.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

// No host has more, and nobody may ask for more: what an agent tells beyond it would only become
// ranks without number.
constexpr int gpus_limit = 1024;

// Of each node; ranks that are as many as the GPUs are at least one.
int gpus_wanted(const JobSpec& spec) {
  return spec.muster.nodes_gpus.value_or(spec.distribution.process_per_gpu ? 1 : 0);
}

int gpus_of(const LinkUp& agent) {
  return std::clamp(agent.gpus, 0, gpus_limit);
}

}  // namespace

std::optional<std::string> gpu_shortage(const JobSpec& spec, const LinkUp& agent) {
  const int wanted = gpus_wanted(spec);
  const int gpus = gpus_of(agent);
  if (gpus >= wanted) return std::nullopt;
  if (gpus == 0) return "has no GPU";
  return "has " + count_text(static_cast<std::size_t>(gpus), "GPU") + ", " +
         std::to_string(wanted) + " are asked for";
}

int processes_on(const State& state, const JobSpec& spec, const NodeId& node) {
  if (!spec.distribution.process_per_gpu) return std::max(1, spec.distribution.processes_per_node);
  const LinkUp* agent = linked_agent(state, node);
  return agent ? gpus_of(*agent) : 0;
}

std::vector<int> processes_at_launch(const State& state, const JobSpec& spec,
                                     const Attempt& attempt) {
  std::vector<int> processes;
  if (!spec.distribution.process_per_gpu && !is_elastic(spec)) return processes;
  for (const AttemptNode& node : attempt.nodes) {
    processes.push_back(processes_on(state, spec, node.id));
  }
  return processes;
}

int ports_wanted(const State& state, const Job& job, const Attempt& attempt,
                 std::size_t node_index) {
  return ports_on_node(job.spec, static_cast<int>(attempt.nodes.size()),
                       static_cast<int>(node_index),
                       processes_on(state, job.spec, attempt.nodes[node_index].id));
}

}  // namespace muster

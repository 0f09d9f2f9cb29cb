#include "scheduler/state/rank_map.h"

#include <algorithm>
#include <string_view>

#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

std::vector<RankPlace> dense_map(const std::vector<int>& processes) {
  std::vector<RankPlace> map;
  for (std::size_t node = 0; node < processes.size(); ++node) {
    for (int local = 0; local < processes[node]; ++local) {
      const int rank = static_cast<int>(map.size());
      map.push_back({RankId{rank}, static_cast<int>(node), local, TaskRole::rank, rank});
    }
  }
  return map;
}

std::vector<RankPlace> even_map(int per_node, int nodes) {
  return dense_map(std::vector<int>(static_cast<std::size_t>(nodes), per_node));
}

std::vector<RankPlace> tensorflow_map(const Distribution& distribution, int nodes) {
  const int workers = distribution.worker_count > 0 ? distribution.worker_count : nodes;
  std::vector<RankPlace> map;
  for (int node = 0; node < nodes; ++node) {
    int local = 0;
    const auto deal = [&](int count, TaskRole role) {
      for (int index = node; index < count; index += nodes) {
        map.push_back({RankId{static_cast<std::int64_t>(map.size())}, node, local++, role, index});
      }
    };
    deal(workers, TaskRole::worker);
    deal(distribution.parameter_server_count, TaskRole::parameter_server);
  }
  return map;
}

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

std::vector<RankPlace> rank_map(const Distribution& distribution, int nodes) {
  const DistributionType type = distribution.type;
  if (type == DistributionType::tensorflow) return tensorflow_map(distribution, nodes);
  const bool is_counted = type == DistributionType::pytorch || type == DistributionType::mpi;
  return even_map(is_counted ? std::max(1, distribution.processes_per_node) : 1, nodes);
}

std::vector<RankPlace> rank_map(const Distribution& distribution, int nodes,
                                const std::vector<int>& processes) {
  return processes.empty() ? rank_map(distribution, nodes) : dense_map(processes);
}

int ranks_on_node(const std::vector<RankPlace>& map, int node_index) {
  return static_cast<int>(std::ranges::count_if(
      map, [&](const RankPlace& place) { return place.node_index == node_index; }));
}

bool runs_mpirun(const JobSpec& spec) {
  return spec.distribution.type == DistributionType::mpi &&
         spec.muster.mpi_launcher == MpiLauncher::mpirun;
}

bool starts_ray(const JobSpec& spec) {
  return spec.distribution.type == DistributionType::ray &&
         !spec.recorded.contains("distribution.address") &&
         !spec.environment_variables.contains("RAY_ADDRESS");
}

bool exports_family(const JobSpec& spec, const char* family) {
  const auto& asked = spec.muster.env_export;
  if (std::ranges::find(asked, family) != asked.end()) return true;
  const std::string_view name = family;
  const DistributionType type = spec.distribution.type;
  if (name == "ompi") return type == DistributionType::mpi;
  if (name != "torch") return false;
  return type == DistributionType::pytorch || type == DistributionType::mpi;
}

int ports_on_node(const JobSpec& spec, int nodes, int node_index, int processes) {
  int ports = is_live(spec) ? processes : 0;
  if (spec.distribution.type == DistributionType::tensorflow) {
    ports += ranks_on_node(rank_map(spec.distribution, nodes), node_index);
  }
  if (starts_ray(spec) && node_index == 0) ports += 2;  // the head's and its dashboard's
  const bool meets = exports_family(spec, "torch") && !spec.muster.master_port;
  if (meets && node_index == 0) ports += 1;
  return ports;
}

std::optional<std::string> gpu_shortage(const JobSpec& spec, const LinkUp& agent) {
  const int wanted = gpus_wanted(spec);
  const int gpus = gpus_of(agent);
  if (gpus >= wanted) return std::nullopt;
  if (gpus == 0) return "has no GPU";
  return "has " + count_text(static_cast<std::size_t>(gpus), "GPU") + ", " +
         std::to_string(wanted) + " are requested";
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

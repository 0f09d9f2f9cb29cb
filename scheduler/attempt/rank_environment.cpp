#include "scheduler/attempt/rank_environment.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "scheduler/model/result.h"
#include "scheduler/state/membership.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

// Azure Batch's own port: part of the variable's value, never bound.
constexpr int azure_batch_port = 6000;

using View = GangVariables;

struct OneRank {
  const RankPlace& place;
  int local_size;
};

std::string host_port(const std::string& address, int port) {
  const bool is_ipv6 = address.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

const NodeFacts& node_at(const View& view, int index) {
  return view.nodes.at(static_cast<std::size_t>(index));
}

std::optional<int> member_port(const View& view, const RankPlace& place) {
  const std::vector<int>& ports = node_at(view, place.node_index).ports;
  const auto local = static_cast<std::size_t>(place.local_rank);
  if (!is_live(view.spec) || local >= ports.size()) return std::nullopt;
  return ports[local];
}

// The job's own port, else the last one that node 0 holds (before it come those of its processes).
// Where another node leads, the leader's own.
std::optional<int> master_port(const View& view) {
  if (view.spec.muster.master_port) return view.spec.muster.master_port;
  if (view.leader.node_index != 0) return member_port(view, view.leader);
  const std::vector<int>& ports = node_at(view, 0).ports;
  if (ports.empty()) return std::nullopt;
  return ports.back();
}

void add_torch(const View& view, Environment& env) {
  env["MASTER_ADDR"] = node_at(view, view.leader.node_index).address;
  if (const auto port = master_port(view)) env["MASTER_PORT"] = std::to_string(*port);
  env["WORLD_SIZE"] = std::to_string(view.world);
}

void add_torch(const OneRank& rank, Environment& env) {
  env["RANK"] = std::to_string(rank.place.rank.value);
  env["LOCAL_RANK"] = std::to_string(rank.place.local_rank);
  env["LOCAL_WORLD_SIZE"] = std::to_string(rank.local_size);
}

// What torchrun sets beside them, which libraries ask for (torch.distributed.run, 2.15). Its
// restarts are numbered by worker, here by attempt, equal on all ranks. Not its
// TORCHELASTIC_USE_AGENT_STORE: the ranks' own store is new with each attempt.
void add_torchrun(const View& view, Environment& env) {
  env["GROUP_WORLD_SIZE"] = std::to_string(view.present.size());
  env["ROLE_NAME"] = "default";
  env["ROLE_WORLD_SIZE"] = std::to_string(view.world);
  env["TORCHELASTIC_RUN_ID"] = view.job.value;
  env["TORCHELASTIC_RESTART_COUNT"] = std::to_string(view.attempt.value);
  env["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(view.spec.muster.restart.attempts);
  env["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "1";
}

// The node's processors are shared among its ranks: each would start a thread for every one.
void add_torchrun(const View& view, const OneRank& rank, Environment& env) {
  env["GROUP_RANK"] = std::to_string(rank.place.node_index);
  env["ROLE_RANK"] = std::to_string(rank.place.rank.value);
  const int cores = node_at(view, rank.place.node_index).cores;
  env["OMP_NUM_THREADS"] = std::to_string(std::max(1, cores / rank.local_size));
}

void add_ompi(const OneRank& rank, Environment& env) {
  env["OMPI_COMM_WORLD_RANK"] = std::to_string(rank.place.rank.value);
  env["OMPI_COMM_WORLD_LOCAL_RANK"] = std::to_string(rank.place.local_rank);
  env["OMPI_COMM_WORLD_LOCAL_SIZE"] = std::to_string(rank.local_size);
}

// What `say` says of each of the nodes that meet.
template <class Say>
std::string of_nodes(const View& view, const char* separator, Say say) {
  std::string text;
  for (const int index : view.present) {
    text += (text.empty() ? "" : separator) + std::invoke(say, node_at(view, index));
  }
  return text;
}

void add_slurm(const View& view, Environment& env) {
  const std::string nodes = std::to_string(view.present.size());
  const auto names = of_nodes(view, ",", [](const NodeFacts& node) { return node.id.value; });
  env["SLURM_JOB_ID"] = env["SLURM_JOB_NAME"] = view.job.value;
  env["SLURM_JOB_NODELIST"] = env["SLURM_NODELIST"] = names;
  env["SLURM_JOB_NUM_NODES"] = env["SLURM_NNODES"] = nodes;
  env["SLURM_NTASKS"] = env["SLURM_NPROCS"] = std::to_string(view.world);
}

void add_slurm(const OneRank& rank, Environment& env) {
  env["SLURM_NTASKS_PER_NODE"] = std::to_string(rank.local_size);
  env["SLURM_PROCID"] = std::to_string(rank.place.rank.value);
  env["SLURM_LOCALID"] = std::to_string(rank.place.local_rank);
  env["SLURM_NODEID"] = std::to_string(rank.place.node_index);
}

std::string json_string(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

// `["h01:20000", "h02:20000"]`, by index of the role.
std::string members(const View& view, TaskRole role) {
  std::map<int, std::string> by_index;
  for (const RankPlace& place : view.map) {
    if (place.role != role) continue;
    const NodeFacts& node = node_at(view, place.node_index);
    const auto local = static_cast<std::size_t>(place.local_rank);
    check(local < node.ports.size(), "a tensorflow process has no port");
    by_index[place.role_index] = host_port(node.address, node.ports[local]);
  }
  std::string list;
  for (const auto& [index, address] : by_index) {
    list += (list.empty() ? "" : ", ") + json_string(address);
  }
  return list.empty() ? "" : "[" + list + "]";
}

void add_tensorflow(const View& view, const OneRank& rank, Environment& env) {
  const std::string servers = members(view, TaskRole::parameter_server);
  std::string cluster = "{\"worker\": " + members(view, TaskRole::worker);
  if (!servers.empty()) cluster += ", \"ps\": " + servers;
  const char* type = rank.place.role == TaskRole::worker ? "worker" : "ps";
  env["TF_CONFIG"] = "{\"cluster\": " + cluster + "}, \"task\": {\"type\": \"" + type +
                     "\", \"index\": " + std::to_string(rank.place.role_index) +
                     "}, \"environment\": \"cloud\"}";
}

std::string recorded(const View& view, const char* key, const std::string& otherwise) {
  const auto found = view.spec.recorded.find(std::string("distribution.") + key);
  return found == view.spec.recorded.end() ? otherwise : found->second;
}

// Additional arguments come last: of two equal options Ray takes the second.
void add_ray(const View& view, Environment& env) {
  env["RAY_ADDRESS"] = recorded(view, "address", "");
  if (!starts_ray(view.spec)) return;
  const NodeFacts& head = node_at(view, 0);
  check(head.ports.size() >= 2, "the head of a ray cluster has no ports");
  const std::string port = recorded(view, "port", std::to_string(head.ports[0]));
  const std::string shown = recorded(view, "include_dashboard", "");
  env["RAY_ADDRESS"] = host_port(head.address, std::stoi(port));
  env["MUSTER_RAY_NODES"] = std::to_string(view.nodes.size());
  env["MUSTER_RAY_HEAD_ARGS"] = "--port=" + port + " --dashboard-host=127.0.0.1 --dashboard-port=" +
                                recorded(view, "dashboard_port", std::to_string(head.ports[1])) +
                                (shown.empty() ? "" : " --include-dashboard=" + shown) + " " +
                                recorded(view, "head_node_additional_args", "");
  env["MUSTER_RAY_WORKER_ARGS"] = recorded(view, "worker_node_additional_args", "");
}

void add_azure(const View& view, Environment& env) {
  const std::string& master = node_at(view, view.leader.node_index).address;
  env["AZ_BATCH_MASTER_NODE"] = host_port(master, azure_batch_port);
  env["AZ_BATCH_HOST_LIST"] = of_nodes(view, ",", &NodeFacts::address);
  env["AZ_BATCH_NODE_LIST"] = of_nodes(view, ";", &NodeFacts::address);
  const auto with_cores = [](const NodeFacts& node) {
    return node.address + " " + std::to_string(node.cores);
  };
  env["CCP_NODES"] = std::to_string(view.present.size()) + " " + of_nodes(view, " ", with_cores);
  env["AZ_BATCH_NODE_IS_DEDICATED"] = view.spec.muster.preemptible ? "false" : "true";
  env["AZ_BATCHAI_MPI_MASTER_NODE"] = master;
  env["AZ_BATCHAI_JOB_MASTER_NODE_IP"] = master;
  env["AZUREML_RUN_ID"] = view.job.value;
  env["AZUREML_EXPERIMENT_ID"] = view.spec.experiment_name;
}

void add_azure(const View& view, const OneRank& rank, Environment& env) {
  const bool is_master = rank.place.node_index == view.leader.node_index;
  env["AZ_BATCH_IS_CURRENT_NODE_MASTER"] = is_master ? "true" : "false";
  env["AZUREML_CR_NODE_RANK"] = std::to_string(rank.place.node_index);
  env["AZUREML_PROCESS_NAME"] = "rank_" + std::to_string(rank.place.rank.value);
}

// "0,1,2"; empty: CUDA shows none.
std::string first_numbers(int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += (i == 0 ? "" : ",") + std::to_string(i);
  return list;
}

const RankPlace& place_of(const std::vector<RankPlace>& map, RankId id) {
  const auto index = static_cast<std::size_t>(id.value);
  check(index < map.size(), "a worker is requested that the job does not have");
  return map[index];
}

RankPlace leader_of(const std::vector<RankPlace>& map, const std::optional<Joiner>& joiner) {
  if (!joiner || joiner->members.empty()) return RankPlace{};
  return place_of(map, joiner->members.front());
}

std::vector<int> nodes_of(const std::vector<RankPlace>& map, const Joiner& joiner) {
  std::set<int> indices{joiner.node_index};
  for (const RankId& id : joiner.members) indices.insert(place_of(map, id).node_index);
  return {indices.begin(), indices.end()};
}

std::vector<int> all_nodes(const std::vector<NodeFacts>& nodes) {
  std::vector<int> indices(nodes.size());
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// checkpoint.every: "50steps" or a duration.
void add_checkpoint_every(const std::string& every, Environment& env) {
  constexpr std::string_view steps = "steps";
  if (every.ends_with(steps)) {
    env["MUSTER_CHECKPOINT_EVERY_STEPS"] = every.substr(0, every.size() - steps.size());
  } else if (const auto time = parse_duration(every)) {
    const auto seconds = std::chrono::duration_cast<Seconds>(*time);
    env["MUSTER_CHECKPOINT_EVERY_SECONDS"] =
        std::to_string(std::max<std::int64_t>(1, seconds.count()));
  }
}

// As the reader keeps muster.debug: the Python program of one rank waits for a debugger.
void add_debug_wait(const JobSpec& spec, RankId id, Environment& env) {
  const auto rank = spec.muster.other.find("debug.rank");
  const auto wait = spec.muster.other.find("debug.wait");
  if (rank == spec.muster.other.end() || wait == spec.muster.other.end()) return;
  const auto time = parse_duration(wait->second);
  if (!time || rank->second != std::to_string(id.value)) return;
  env["MUSTER_DEBUG_WAIT"] = std::to_string(std::chrono::duration_cast<Seconds>(*time).count());
}

void add_muster(const View& view, Environment& env) {
  env["MUSTER_JOB"] = view.job.value;
  env["MUSTER_ATTEMPT"] = std::to_string(view.attempt.value);
  env["MUSTER_EPOCH"] = std::to_string(epoch_of(view.attempt).value);
  if (is_elastic(view.spec) && !view.present.empty()) {
    const std::size_t nodes = view.present.size();
    const std::size_t on_node = static_cast<std::size_t>(view.world) / nodes;
    env["MUSTER_WORLD_SIZE_MAX"] = std::to_string(node_range(view.spec).most * on_node);
  }
  add_checkpoint_every(view.spec.muster.checkpoint_every, env);
  env["PYTHONUNBUFFERED"] = "1";  // what a rank printed last is known although it was killed
}

}  // namespace

GangVariables::GangVariables(const JobSpec& job_spec, const JobId& job_id, AttemptId attempt_id,
                             std::vector<NodeFacts> facts, const std::vector<int>& processes,
                             const std::optional<Joiner>& joiner)
    : spec(job_spec),
      job(job_id),
      attempt(attempt_id),
      nodes(std::move(facts)),
      map(rank_map(spec.distribution, static_cast<int>(nodes.size()), processes)),
      leader(leader_of(map, joiner)),
      world(map.size()),
      present(joiner ? nodes_of(map, *joiner) : all_nodes(nodes)) {
  if (!joiner) return;
  const int here = ranks_on_node(map, joiner->node_index);
  world = joiner->members.size() + static_cast<std::size_t>(here);
}

Environment GangVariables::shared() const {
  Environment env;
  add_azure(*this, env);
  if (exports_family(spec, "torch")) add_torch(*this, env);
  if (spec.distribution.type == DistributionType::pytorch) add_torchrun(*this, env);
  if (spec.distribution.type == DistributionType::ray) add_ray(*this, env);
  if (exports_family(spec, "ompi")) env["OMPI_COMM_WORLD_SIZE"] = std::to_string(world);
  if (exports_family(spec, "slurm")) add_slurm(*this, env);
  if (spec.muster.nodes_gpus) env["CUDA_VISIBLE_DEVICES"] = first_numbers(*spec.muster.nodes_gpus);
  add_muster(*this, env);
  for (const auto& [name, value] : spec.environment_variables) env[name] = value;
  return env;
}

Environment GangVariables::own(RankId id) const {
  const RankPlace& place = place_of(map, id);
  const auto here = std::ranges::equal_range(map, place.node_index, {}, &RankPlace::node_index);
  const OneRank rank{place, static_cast<int>(here.size())};
  Environment env;
  add_azure(*this, rank, env);
  env["NODE_RANK"] = std::to_string(place.node_index);
  if (exports_family(spec, "torch")) add_torch(rank, env);
  if (spec.distribution.type == DistributionType::pytorch) add_torchrun(*this, rank, env);
  if (exports_family(spec, "ompi")) add_ompi(rank, env);
  if (exports_family(spec, "slurm")) add_slurm(rank, env);
  if (spec.distribution.type == DistributionType::tensorflow) add_tensorflow(*this, rank, env);
  if (starts_ray(spec)) env["MUSTER_RAY_NODE_ADDRESS"] = node_at(*this, place.node_index).address;
  if (const auto port = member_port(*this, place)) {
    env["MUSTER_MEMBER_PORT"] = std::to_string(*port);
  }
  add_debug_wait(spec, id, env);
  for (const auto& [name, value] : spec.environment_variables) env.erase(name);
  return env;
}

}  // namespace muster

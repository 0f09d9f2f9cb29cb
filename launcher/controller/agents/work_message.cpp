#include "launcher/controller/agents/work_message.h"

#include <algorithm>
#include <array>

#include "health/benchmark/gate_figures.h"
#include "launcher/image/name.h"
#include "runtime/protocol/environment.h"
#include "runtime/protocol/keyed_hash.h"
#include "runtime/protocol/membership.h"
#include "scheduler/node/fault_drain.h"
#include "scheduler/state/gate_benchmark.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/rank_map.h"

namespace muster {

namespace {

// As the other nodes reach it, also while it does not answer for a moment.
std::string address_of(const State& state, const NodeId& id) {
  const Node* known = find_node(state, id);
  const LinkUp* agent = known == nullptr ? nullptr : last_agent(*known);
  if (agent == nullptr) return id.value;
  return agent->job_address.empty() ? agent->host_name : agent->job_address;
}

std::vector<NodeFacts> facts_of(const State& state, const Attempt& attempt, AgentPool& pool) {
  std::vector<NodeFacts> facts;
  for (const AttemptNode& node : attempt.nodes) {
    NodeFacts fact;
    fact.id = node.id;
    fact.address = address_of(state, node.id);
    if (const AgentConnection* connection = pool.find(node.id)) {
      fact.cores = connection->welcome().cores;
    }
    if (node.ports) fact.ports = node.ports->ports;
    facts.push_back(std::move(fact));
  }
  return facts;
}

// Another launcher is to start as many processes on a node as muster would; where the job does not
// say how many, one for each GPU.
int slots_of(const State& state, const Job& job, const Attempt& attempt, std::size_t index) {
  const auto& map = attempt.ranks;
  const auto ranks = static_cast<int>(
      std::ranges::count(map, static_cast<int>(index), &Rank::node_index));
  const LinkUp* agent = linked_agent(state, attempt.nodes[index].id);
  const int gpus = job.spec.muster.nodes_gpus.value_or(agent != nullptr ? agent->gpus : 0);
  if (ranks > 1) return ranks;
  return std::max(job.spec.distribution.processes_per_node, gpus);
}

RemoteDoor door_of(const State& state, const Job& job, const Attempt& attempt) {
  RemoteDoor door;
  for (std::size_t index = 0; index < attempt.nodes.size(); ++index) {
    door.hosts.push_back(attempt.nodes[index].id.value);
    door.addresses.push_back(address_of(state, attempt.nodes[index].id));
    door.slots.push_back(slots_of(state, job, attempt, index));
  }
  return door;
}

// Where the job's checkpoints lie on a node: muster.checkpoint.path, a directory that all nodes
// see, or empty for the job's own directory on each node.
std::string checkpoint_path_of(const Job& job, const Home& home) {
  if (!job.spec.muster.checkpoint_path.empty()) return job.spec.muster.checkpoint_path;
  if (is_this_host(job.target)) return (home.job(job.id) / "ckpt").string();
  const std::string shared = shared_directory(job.target, job.id);
  return shared.empty() ? "" : shared + "/ckpt";
}

// Where outputs go when every node can write there directly; empty: collected from the nodes.
std::string shared_outputs_of(const Job& job, const Home& home) {
  if (is_this_host(job.target)) return home.outputs(job.id).string();
  const std::string shared = shared_directory(job.target, job.id);
  return shared.empty() ? "" : shared + "/outputs";
}

// muster-train's checkpoints are known as such; what it exports is none.
bool runs_own_trainer(const JobSpec& spec) {
  return std::ranges::count(interpreters_of(spec.command), "muster-train") > 0;
}

ForeignSaves saves_of(const Job& job, const Attempt* attempt, const Home& home) {
  const MusterSettings& settings = job.spec.muster;
  ForeignSaves saves{settings.checkpoint_format, settings.checkpoint_marker};
  if (saves.format == "auto" && runs_own_trainer(job.spec)) saves.format = "muster";
  if (attempt && !is_live(job.spec)) saves.world = static_cast<int>(attempt->ranks.size());
  const std::string shared = shared_outputs_of(job, home);
  if (!shared.empty()) saves.directories.push_back(shared);
  for (const auto& [name, output] : job.spec.outputs) {
    if (output.is_written_at_path()) saves.directories.push_back(output.path);
  }
  return saves;
}

// The members of an elastic attempt as their ranks read them (runtime/protocol/membership.h). A
// member's port is the one of those that its node holds that is in its own place there.
std::string membership_text(const State& state, const Attempt& attempt) {
  EpochMembers text{static_cast<std::uint64_t>(attempt.members.epoch), {}};
  for (const RankId id : attempt.members.ranks) {
    const Rank& rank = attempt.ranks.at(static_cast<std::size_t>(id.value));
    const AttemptNode& node = node_of(attempt, rank);
    const auto local = static_cast<std::size_t>(rank.local_rank);
    check(node.ports && local < node.ports->ports.size(), "a worker has no port");
    text.members.push_back({static_cast<std::uint64_t>(id.value), address_of(state, node.id),
                            static_cast<std::uint16_t>(node.ports->ports[local]), node.id.value});
  }
  return format_membership(text);
}

// What every map has with the same value; that is sent once a node, the rest a rank.
Environment common_part(const std::vector<Environment>& all) {
  Environment common = all.empty() ? Environment{} : all.front();
  for (const Environment& one : all) {
    std::erase_if(common, [&one](const auto& item) {
      const auto found = one.find(item.first);
      return found == one.end() || found->second != item.second;
    });
  }
  return common;
}

// As the job file's reader keeps it; nothing: not given, or by an older reader not understood.
std::string kept(const JobSpec& spec, const char* setting) {
  const auto found = spec.muster.other.find(setting);
  return found == spec.muster.other.end() ? std::string() : found->second;
}

JobHealth job_health_of(const JobSpec& spec) {
  JobHealth health;
  health.failure = failure_level(spec.muster);
  health.run = kept(spec, "health.run") != "false";
  health.skip = spec.muster.health_skip;
  health.only = spec.muster.health_only;
  return health;
}

// A check that does not drain the node any more does not refuse it either.
std::vector<std::string> checks_skipped(const State& state, const Job& job, const NodeId& node) {
  std::vector<std::string> skipped = job.spec.muster.health_skip;
  const std::vector<std::string> withheld = checks_withheld_on(state, node);
  skipped.insert(skipped.end(), withheld.begin(), withheld.end());
  return skipped;
}

CheckNode check_message(const State& state, const Job& job, const NodeWork& work, Time now,
                        const Home& home) {
  CheckNode check;
  check.job = work.job;
  check.attempt = work.attempt;
  check.now_ms = to_ms(now);
  if (!job.spec.environment_variables.contains("PATH") && job.spec.environment.image.empty()) {
    check.programs = interpreters_of(job.spec.command);
    if (runs_mpirun(job.spec)) check.programs.push_back("mpirun");
  }
  check.checkpoint_path = checkpoint_path_of(job, home);
  check.asked_step = job.resume_step;
  const Attempt* attempt = find_attempt(state, work.job, work.attempt);
  check.saves = saves_of(job, attempt, home);
  const bool runs = attempt && attempt->launched;  // a node that joins it
  if (job.spec.muster.checkpoint_quarantine && job.first_launch && !runs) {
    check.saves.quarantine_since = to_ms(*job.first_launch);
    check.saves.quarantine_until =
        to_ms(job.past.empty() ? job.submitted_at : job.past.back().ended_at);
  }
  check.skip = checks_skipped(state, job, work.node);
  check.health = job_health_of(job.spec);
  check.with_health = job.spec.muster.health_start != HealthLevel::off;
  const GateMeasuring measuring = gate_measuring(job, work.node);
  check.measures = measuring.is_wanted;
  // A clock that was set back says nothing.
  if (measuring.since) check.failed_ago = std::max(now - *measuring.since, Milliseconds{0});
  if (!check.with_health) check.skip.push_back("all");
  return check;
}

constexpr auto known = std::to_array<std::string_view>(
    {"python", "pypy", "perl", "ruby", "julia", "Rscript", "node", "java", "lua", "bash", "zsh",
     "ksh", "torchrun", "deepspeed", "accelerate", "muster-train"});

// python3, python3.11: the name of a known interpreter and a version.
bool is_interpreter(std::string_view word) {
  return std::ranges::any_of(known, [word](std::string_view name) {
    return word.starts_with(name) &&
           word.substr(name.size()).find_first_not_of("0123456789.") == std::string_view::npos;
  });
}

}  // namespace

std::vector<CheckFailure> failures_unmeasured(const State& state, const Job& job,
                                              const NodeId& node) {
  if (!gate_measuring(job, node).is_wanted || !job.target.health) return {};
  const CheckChoice choice{checks_skipped(state, job, node), job.spec.muster.health_only};
  const ProbePlan plan = gate_plan(*job.target.health, choice);
  std::vector<GateFigure> figures;
  for (const PlannedProbe& probe : plan.probes) {
    for (const std::string& metric : probe.metrics) {
      figures.push_back({{metric, "", std::nullopt, "the agent is outdated"}, {}});
    }
  }
  return judge_gate_figures(*job.target.health, plan, figures);
}

std::string attempt_secret(const std::string& secret_key, const Job& job, AttemptId attempt) {
  const std::string name = "attempt " + std::to_string(attempt.value) + " of " + job.id.value +
                           ", submitted at " + std::to_string(to_ms(job.submitted_at));
  return hex_text(keyed_hash(secret_key, name));
}

SetMembers WorkMessages::members_message(const Job& job, const Attempt& attempt) {
  return {job.id, attempt.id, attempt.members.epoch, membership_text(state_, attempt)};
}

StartRanks WorkMessages::start_message(const Job& job, const Attempt& attempt,
                                       const NodeWork& work) {
  StartRanks start;
  start.job = work.job;
  start.attempt = work.attempt;
  start.node_index = work.node_index;
  start.command = job.spec.command;
  start.resume_argument = job.spec.muster.resume_argument;
  start.resume_from = attempt.resume_from;
  start.checkpoint_path = checkpoint_path_of(job, home_);
  if (const EnvironmentSpec& place = job.spec.environment; !place.image.empty()) {
    start.image = name_on_node(pulled_image(place), place.digest);
    start.runtime = place.runtime;
  }
  start.shm_size = job.spec.shm_size;
  start.inputs = job.spec.inputs;
  start.outputs = job.spec.outputs;
  start.shared_outputs = shared_outputs_of(job, home_);
  start.saves = saves_of(job, &attempt, home_);
  start.metrics_regex = job.spec.muster.metrics_regex;
  start.metrics_mlflow = job.spec.muster.metrics_mlflow;
  start.health = job_health_of(job.spec);
  start.elastic = attempt.has_members();
  const bool joins = attempt.nodes.at(static_cast<std::size_t>(work.node_index)).join.has_value();
  if (start.elastic && !joins) start.members = membership_text(state_, attempt);
  std::optional<Joiner> joiner;
  if (joins) joiner = Joiner{work.node_index, attempt.members.ranks};
  const Gang& gang = allocation_of(job, attempt, joiner);
  std::vector<Environment> own;
  for (const Rank& rank : ranks_on(attempt, static_cast<std::size_t>(work.node_index))) {
    start.ranks.push_back({rank.id, rank.local_rank, {}});
    own.push_back(gang.variables.own(rank.id));
  }
  start.environment = common_part(own);
  for (std::size_t i = 0; i < own.size(); ++i) {
    for (auto& [name, value] : own[i]) {
      if (!start.environment.contains(name)) start.ranks[i].environment[name] = value;
    }
  }
  start.environment.insert(gang.shared.begin(), gang.shared.end());
  const std::string secret = attempt_secret(secret_key_, job, attempt.id);
  start.environment[env_rendezvous_secret] = secret;
  if (starts_ray(job.spec)) {  // Ray takes one of this shape; the job may turn it off
    start.environment.emplace("RAY_AUTH_MODE", "token");
    start.environment.emplace("RAY_AUTH_TOKEN", secret);
  }
  if (runs_mpirun(job.spec)) {
    start.mpi.emplace();
    start.mpi->processes_per_node = job.spec.distribution.processes_per_node;
    start.mpi->processes = attempt.processes;
    start.mpi->one_machine = is_this_host(job.target);
    start.mpi->arguments = job.spec.muster.mpi_arguments;
    for (const AttemptNode& node : attempt.nodes) start.mpi->hosts.push_back(node.id.value);
  }
  if (job.spec.muster.remote_start) start.door = door_of(state_, job, attempt);
  for (const auto& [name, service] : job.spec.services) {
    if (service.type != "ssh" && service.runs_on(work.node_index)) start.services[name] = service;
  }
  return start;
}

const WorkMessages::Gang& WorkMessages::allocation_of(const Job& job, const Attempt& attempt,
                                                      const std::optional<Joiner>& joiner) {
  const std::pair key{job.id, joiner ? std::optional(joiner->node_index) : std::nullopt};
  auto found = gangs_.find(key);
  if (found == gangs_.end()) {
    GangVariables variables(job.spec, job.id, attempt.id, facts_of(state_, attempt, pool_),
                            attempt.processes, joiner);
    Environment shared = variables.shared();
    found = gangs_.emplace(key, Gang{std::move(variables), std::move(shared)}).first;
  }
  return found->second;
}

ToAgent WorkMessages::message(const NodeWork& work) {
  const Job* job = find_job(state_, work.job);
  if (const auto* stop = std::get_if<StopWork>(&work.work)) {
    StopAttempt message{work.job, work.attempt, "SIGTERM", stop->why.grace, stop->why.grace_max};
    if (job != nullptr) message.signal = job->spec.muster.stop.signal;
    if (stop->leaves) message.signal.clear();
    return message;
  }
  check(job != nullptr && active_attempt(*job) != nullptr, "work for a job that is not active");
  if (std::holds_alternative<CheckWork>(work.work))
    return check_message(state_, *job, work, now_, home_);
  if (const auto* reserve = std::get_if<ReserveWork>(&work.work)) {
    return ReservePorts{work.job, work.attempt, reserve->count, job->target.port_min,
                        job->target.port_max};
  }
  if (std::holds_alternative<StartWork>(work.work)) {
    return start_message(*job, *active_attempt(*job), work);
  }
  if (std::holds_alternative<MembersWork>(work.work)) {
    return members_message(*job, *active_attempt(*job));
  }
  check(std::holds_alternative<CollectWork>(work.work), "staging is sent by the work sender");
  return CollectOutputs{work.job, work.attempt};
}

std::vector<std::string> interpreters_of(std::string_view command) {
  const auto begin = command.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return {};
  const auto end = command.find_first_of(" \t\n;&|<>", begin);
  const std::string_view word = command.substr(begin, end - begin);
  if (!is_interpreter(word)) return {};
  return {std::string(word)};
}

}  // namespace muster

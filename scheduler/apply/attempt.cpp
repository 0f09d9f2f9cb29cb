#include <algorithm>

#include "scheduler/apply/parts.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/rank_map.h"
#include "scheduler/state/resume_point.h"

namespace muster {

namespace {

// A node that joins later is one entry more.
std::vector<int> dealt_processes(const Attempt& attempt) {
  std::vector<int> processes;
  for (std::size_t i = 0; i < attempt.nodes.size(); ++i) {
    processes.push_back(static_cast<int>(ranks_on(attempt, i).size()));
  }
  return processes;
}

// It sends what its ranks wrote, or is asked for it once more.
AttemptNode* asked_again(Attempt& attempt, const NodeId& id) {
  AttemptNode* node = find_node(attempt, id);
  const bool is_over = node && (phase_of<Collecting>(attempt) || node->departure);
  return is_over && collection_failure(*node) ? node : nullptr;
}

}  // namespace

void remember_agent(const State& state, AttemptNode& node) {
  const Node* known = find_node(state, node.id);
  const LinkUp* agent = known ? last_agent(*known) : nullptr;
  if (!agent) return;
  node.agent = StartAgent{.id = agent->agent_id, .boot_id = agent->boot_id};
}

void deal_ranks(Attempt& attempt, const Distribution& distribution) {
  const auto nodes = static_cast<int>(attempt.nodes.size());
  attempt.ranks.clear();
  for (const RankPlace& place : rank_map(distribution, nodes, attempt.processes)) {
    attempt.ranks.push_back({place.rank, place.node_index, place.local_rank, RankWaiting{}});
  }
}

void apply_one(State& state, Time at, const StagingBegun& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  if (!attempt || !phase_of<Gathering>(*attempt)) return;
  const auto goes = [](const AttemptNode& node) { return node.departure.has_value(); };
  if (std::ranges::any_of(attempt->nodes, goes)) return;
  attempt->phase = Staging{at};
  Job& job = *find_job(state, record.job);
  job.waiting_since.reset();
  job.waited_before = Milliseconds{0};
  job.measured_meanwhile = Milliseconds{0};
  job.abandoned = 0;
  job.abandoned_for.clear();
  job.abandoned_alike = 0;
  job.awaited.clear();
}

void apply_one(State& state, Time at, const PortsAsked& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  if (attempt && phase_of<Staging>(*attempt)) attempt->phase = Reserving{at};
}

void apply_one(State& state, Time at, const LaunchBegun& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  if (!attempt || !(phase_of<Staging>(*attempt) || phase_of<Reserving>(*attempt))) return;
  attempt->phase = Starting{at};
  attempt->launched = true;
  attempt->resume_from = record.resume_from;
  for (AttemptNode& node : attempt->nodes) remember_agent(state, node);
  Job& job = *find_job(state, record.job);
  if (!job.first_launch) job.first_launch = at;
  const auto is_one = [](int count) { return count > 0; };
  const bool has_ranks = std::ranges::any_of(record.processes, is_one);
  if (record.processes.size() == attempt->nodes.size() && (has_ranks || !is_elastic(job.spec))) {
    attempt->processes = record.processes;
    deal_ranks(*attempt, job.spec.distribution);
  } else if (is_elastic(job.spec)) {
    attempt->processes = dealt_processes(*attempt);
  }
  add_fork(job.forks, epoch_of(record.attempt), base_step(record.resume_from));
  job.newest_checkpoint = record.resume_from;
  job.resume_step.reset();
  job.certified_because.reset();
  const auto& certified = job.newest_certified;
  if (certified && !is_on_lineage(job, *certified)) job.newest_certified.reset();
}

void apply_one(State& state, Time at, const StopBegun& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  if (!attempt || phase_of<Collecting>(*attempt)) return;
  if (auto* stopping = std::get_if<Stopping>(&attempt->phase)) {
    stopping->why.grace = std::min(stopping->why.grace, record.grace);
    stopping->why.grace_max = std::min(stopping->why.grace_max, record.grace_max);
    return;
  }
  attempt->phase = Stopping{at, record};
  attempt->stopped_at = at;
  if (attempt->running_since) {
    find_job(state, record.job)->ran_for += at - *attempt->running_since;
  }
}

void apply_one(State& state, Time at, const NodeFenced& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  AttemptNode* node = attempt ? find_node(*attempt, record.node) : nullptr;
  if (!node || !(phase_of<Stopping>(*attempt) || node->departure)) return;
  node->fenced = record.proof;
  if (node->departure) see_outputs(*node, at);  // its time to deliver begins
}

void apply_one(State& state, Time at, const CollectionBegun& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  if (!attempt) return;
  if (record.again_from) {
    AttemptNode* node = asked_again(*attempt, *record.again_from);
    if (!node) return;
    node->collection.state = NotCollected{at};
  } else if (const auto* stopping = phase_of<Stopping>(*attempt)) {
    attempt->phase = Collecting{StopBegun{stopping->why}, at, false, {}};
  }
}

void apply_one(State& state, Time, const DeliveryBegun& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  auto* collecting = attempt ? std::get_if<Collecting>(&attempt->phase) : nullptr;
  if (!collecting || collecting->delivers) return;
  collecting->delivers = true;
  find_job(state, record.job)->not_uploaded =
      "the job was cancelled while its outputs were copied; `muster resume " + record.job.value +
      " --upload` copies them";
}

}  // namespace muster

#include <algorithm>
#include <chrono>

#include "scheduler/apply_parts.h"
#include "scheduler/lookup.h"
#include "scheduler/rank_map.h"
#include "scheduler/resume_point.h"

namespace muster {

namespace {

void remember_agents(const State& state, Attempt& attempt) {
  for (AttemptNode& node : attempt.nodes) {
    const LinkUp* agent = linked_agent(state, node.id);
    const Unlinked* lost = unlinked(state, node.id);
    if (!agent && lost && lost->last) agent = &*lost->last;
    if (!agent) continue;
    node.agent_id = agent->agent_id;
    node.boot_id = agent->boot_id;
  }
}

}  // namespace

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
  attempt->phase = Staging{at};
  Job& job = *find_job(state, record.job);
  job.waiting_since.reset();
  job.waited_before = Milliseconds{0};
  job.abandoned = 0;
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
  remember_agents(state, *attempt);
  Job& job = *find_job(state, record.job);
  if (record.processes.size() == attempt->nodes.size()) {
    attempt->processes = record.processes;
    deal_ranks(*attempt, job.spec.distribution);
  }
  add_fork(job.forks, epoch_of(record.attempt), record.resume_from ? record.resume_from->step : 0);
  job.resumed_from = record.resume_from;
  job.newest_checkpoint = record.resume_from;
  job.resume_step.reset();
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

void apply_one(State& state, Time, const NodeFenced& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  const bool stops = attempt && phase_of<Stopping>(*attempt);
  AttemptNode* node = stops ? find_node(*attempt, record.node) : nullptr;
  if (node) node->fenced = record;
}

void apply_one(State& state, Time at, const CollectionBegun& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  if (!attempt) return;
  if (const auto* stopping = phase_of<Stopping>(*attempt)) {
    attempt->phase = Collecting{StopBegun{stopping->why}, at};
  } else if (phase_of<Collecting>(*attempt) && record.again_from) {
    AttemptNode* node = find_node(*attempt, *record.again_from);
    if (!node || !node->collected || node->collected->error.empty()) return;
    node->collected.reset();
    node->collection_seen = at;
  }
}

}  // namespace muster

#include <algorithm>
#include <set>

#include "scheduler/apply_parts.h"
#include "scheduler/lookup.h"
#include "scheduler/rank_map.h"
#include "scheduler/resume_point.h"

namespace muster {

namespace {

AttemptNode fresh_node(const NodeId& id, Time at) {
  AttemptNode node;
  node.id = id;
  node.joined_at = at;
  return node;
}

bool is_free(const State& state, const NodeId& id) {
  const Node* node = find_node(state, id);
  return !node || !node->owner;
}

bool are_free(const State& state, const std::vector<NodeId>& nodes) {
  const std::set<NodeId> distinct(nodes.begin(), nodes.end());
  return !nodes.empty() && distinct.size() == nodes.size() &&
         std::all_of(nodes.begin(), nodes.end(),
                     [&](const NodeId& node) { return is_free(state, node); });
}

// The attempt, while nothing of it runs and its nodes may still change.
Attempt* gathering(State& state, const JobId& job, AttemptId id) {
  Attempt* attempt = find_attempt(state, job, id);
  return attempt && phase_of<Gathering>(*attempt) ? attempt : nullptr;
}

std::vector<Rank> fresh_ranks(const JobSpec& spec, std::size_t nodes) {
  std::vector<Rank> ranks;
  for (const RankPlace& place : rank_map(spec.distribution, static_cast<int>(nodes))) {
    ranks.push_back({place.rank, place.node_index, place.local_rank, RankWaiting{}});
  }
  return ranks;
}

PastAttempt past_of(const Attempt& attempt, const AttemptEnded& record, Time at) {
  PastAttempt past;
  past.id = attempt.id;
  past.ended_at = at;
  past.cause = record.cause;
  past.newest_checkpoint = record.newest_checkpoint;
  past.started_at = attempt.running_since.value_or(attempt.placed_at);
  for (const AttemptNode& node : attempt.nodes) past.nodes.push_back(node.id);
  const auto& newest = record.newest_checkpoint;
  past.newer_checkpoint =
      newest && (!attempt.resume_from || newest->step > attempt.resume_from->step);
  return past;
}

// A node whose processes do not die stays the job's, whatever becomes of the job.
void give_back(State& state, const Job& job, const Attempt& attempt) {
  const auto* collecting = phase_of<Collecting>(attempt);
  const auto* stopping = phase_of<Stopping>(attempt);
  for (const AttemptNode& node : attempt.nodes) {
    const bool stuck = (node.unkillable_since || node.is_unproven()) && !node.agent_changed;
    if (stuck && collecting && collecting->why) {
      node_at(state, node.id).unclean = Unclean{job.id, attempt.id, *collecting->why};
    } else if (stuck && stopping) {
      node_at(state, node.id).unclean = Unclean{job.id, attempt.id, stopping->why};
    }
    release(state, node.id, job.id);
  }
}

}  // namespace

void apply_one(State& state, Time at, const AttemptPlaced& record) {
  Job* job = find_job(state, record.job);
  const bool waits = job && !active_attempt(*job) && !is_undecided(*job);
  if (!waits || record.attempt.value < job->next_attempt) return;
  if (!are_free(state, record.nodes)) return;
  Attempt attempt;
  attempt.id = record.attempt;
  attempt.placed_at = at;
  for (const NodeId& id : record.nodes) {
    attempt.nodes.push_back(fresh_node(id, at));
    node_at(state, id).owner = record.job;
  }
  attempt.ranks = fresh_ranks(job->spec, record.nodes.size());
  job->next_attempt = record.attempt.value + 1;
  job->phase = Active{std::move(attempt)};
}

void apply_one(State& state, Time at, const NodeReplaced& record) {
  Attempt* attempt = gathering(state, record.job, record.attempt);
  AttemptNode* node = attempt ? find_node(*attempt, record.old_node) : nullptr;
  if (!node || !is_free(state, record.new_node)) return;
  attempt->passed_over.push_back(record);
  release(state, record.old_node, record.job);
  *node = fresh_node(record.new_node, at);
  node_at(state, record.new_node).owner = record.job;
}

void apply_one(State& state, Time, const PlacementAbandoned& record) {
  const Attempt* attempt = gathering(state, record.job, record.attempt);
  if (!attempt) return;
  Job& job = *find_job(state, record.job);
  for (const AttemptNode& node : attempt->nodes) release(state, node.id, record.job);
  if (!job.waiting_since) job.waiting_since = attempt->placed_at;
  job.abandoned += 1;
  job.phase = Queued{record.reason, record.retry_at};
}

void apply_one(State& state, Time at, const AttemptEnded& record) {
  const Attempt* attempt = find_attempt(state, record.job, record.attempt);
  if (!attempt || !(phase_of<Stopping>(*attempt) || phase_of<Collecting>(*attempt))) return;
  Job& job = *find_job(state, record.job);
  job.past.push_back(past_of(*attempt, record, at));
  give_back(state, job, *attempt);
  job.phase = Queued{};
}

void apply_one(State&, Time, const SpareDropped&) {}

}  // namespace muster

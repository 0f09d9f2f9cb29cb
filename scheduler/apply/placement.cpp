#include <algorithm>
#include <set>

#include "scheduler/apply/parts.h"
#include "scheduler/state/gate_benchmark.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/resume_point.h"

namespace muster {

namespace {

bool are_free(const State& state, const AttemptPlaced& placed) {
  std::set<NodeId> distinct(placed.nodes.begin(), placed.nodes.end());
  distinct.insert(placed.spares.begin(), placed.spares.end());
  return !placed.nodes.empty() && distinct.size() == placed.nodes.size() + placed.spares.size() &&
         std::ranges::all_of(distinct, [&](const NodeId& node) { return is_free(state, node); });
}

// The attempt, while nothing of it runs and its nodes may still change.
Attempt* gathering(State& state, const JobId& job, AttemptId id) {
  Attempt* attempt = find_attempt(state, job, id);
  return attempt && phase_of<Gathering>(*attempt) ? attempt : nullptr;
}

// A program that starts over each time saves again what it had saved before: another program's
// checkpoint says by its step that it is further, else the program's own steps do.
bool is_beyond_all(const Job& job, const Attempt& attempt, const CheckpointRef& newest) {
  if (!newest.is_foreign()) return true;
  if (newest.step == CheckpointRef::no_step) return attempt.last_step.value_or(0) == 0;
  return std::ranges::none_of(job.past, [&](const PastAttempt& past) {
    return past.newest_checkpoint && past.newest_checkpoint->step >= newest.step;
  });
}

// A program that tells no steps is believed to have saved where it was, as is one whose checkpoint
// does not say its step.
bool is_last_step_saved(const Attempt& attempt, bool newer_checkpoint,
                        const std::optional<CheckpointRef>& newest) {
  const bool has_step = newest && newest->step != CheckpointRef::no_step;
  if (!attempt.last_step || (newest && !has_step)) return newer_checkpoint;
  const auto& last = newest ? newest : attempt.resume_from;
  return last && last->step >= *attempt.last_step;
}

std::vector<RanThere> ran_there(const Attempt& attempt, Time ended_at) {
  std::vector<RanThere> ran;
  for (std::size_t i = 0; i < attempt.nodes.size(); ++i) {
    if (!may_have_run(attempt, i)) continue;
    const AttemptNode& node = attempt.nodes[i];
    RanThere there{node.id, std::nullopt, ended_at};
    if (node.departure) there = {node.id, node.departure->why.reason, node.departure->at};
    ran.push_back(std::move(there));
  }
  return ran;
}

PastAttempt past_of(const Job& job, const Attempt& attempt, const AttemptEnded& record, Time at) {
  PastAttempt past;
  past.id = attempt.id;
  past.ended_at = at;
  past.cause = record.cause;
  past.newest_checkpoint = record.newest_checkpoint;
  past.started_at = attempt.running_since.value_or(attempt.placed_at);
  for (const AttemptNode& node : attempt.nodes) {
    if (is_active(node)) past.nodes.push_back(node.id);
  }
  for (const AttemptNode& spare : attempt.spares) past.spares.push_back(spare.id);
  past.ran = ran_there(attempt, at);
  const auto& newest = record.newest_checkpoint;
  const bool newer_checkpoint = is_beyond(newest, attempt.resume_from);
  past.saved_last_step = is_last_step_saved(attempt, newer_checkpoint, newest);
  past.last_step = attempt.last_step;
  const std::int64_t reached = std::max(base_step(attempt.resume_from), step_reached(job));
  past.advanced = (newer_checkpoint && is_beyond_all(job, attempt, *newest)) ||
                  past.last_step.value_or(0) > reached;
  return past;
}

void release_spares(State& state, const Job& job, const Attempt& attempt) {
  for (const AttemptNode& spare : attempt.spares) release(state, spare.id, job.id);
}

// A node whose processes do not die stays the job's, whatever becomes of the job.
void give_back(State& state, const Job& job, const Attempt& attempt) {
  const StopBegun* why = why_ending(attempt);
  for (const AttemptNode& node : attempt.nodes) {
    if (is_released(node)) continue;
    if (why)
      release_after(state, node, *why);
    else
      release(state, node.id, job.id);
  }
  release_spares(state, job, attempt);
}

}  // namespace

bool is_free(const State& state, const NodeId& id) {
  const Node* node = find_node(state, id);
  return !node || !node->owner;
}

void note_measured(State& state, const JobId& id, const NodeId& node, Time at) {
  Job* job = find_job(state, id);
  Attempt* attempt = job ? active_attempt(*job) : nullptr;
  if (!attempt || !phase_of<Gathering>(*attempt) || !has_measuring_gate(job->spec)) return;
  const AttemptNode* measured = find_node(*attempt, node);
  if (measured) add_measured(attempt->measured, span_measured(state, *job, *measured, at));
}

void forget_spare(Attempt& attempt, const NodeId& id) {
  std::erase_if(attempt.spares, [&](const AttemptNode& spare) { return spare.id == id; });
}

void release_after(State& state, const AttemptNode& node, const StopBegun& why) {
  const bool is_stuck = (unkillable_since(node) || is_unproven(node)) && !has_changed_agent(node);
  if (is_stuck) node_at(state, node.id).unclean = why;
  release(state, node.id, why.job);
}

void apply_one(State& state, Time at, const AttemptPlaced& record) {
  Job* job = find_job(state, record.job);
  const bool waits = job && !active_attempt(*job) && !is_undecided(*job);
  if (!waits || record.attempt.value < job->next_attempt) return;
  if (!are_free(state, record)) return;
  Attempt attempt;
  attempt.id = record.attempt;
  attempt.placed_at = at;
  for (const NodeId& id : record.nodes) {
    attempt.nodes.push_back(fresh_node(id, at));
    node_at(state, id).owner = record.job;
  }
  for (const NodeId& id : record.spares) {
    attempt.spares.push_back(fresh_node(id, at));
    node_at(state, id).owner = record.job;
  }
  deal_ranks(attempt, job->spec.distribution);
  job->next_attempt = record.attempt.value + 1;
  job->phase = Active{std::move(attempt)};
}

void apply_one(State& state, Time at, const NodeReplaced& record) {
  Attempt* attempt = gathering(state, record.job, record.attempt);
  AttemptNode* node = attempt ? find_node(*attempt, record.old_node) : nullptr;
  const AttemptNode* spare = attempt ? find_spare(*attempt, record.new_node) : nullptr;
  if (!node || !(spare || is_free(state, record.new_node))) return;
  note_measured(state, record.job, record.old_node, at);
  attempt->rejected_nodes.push_back(record);
  release(state, record.old_node, record.job);
  *node = spare ? *spare : fresh_node(record.new_node, at);
  if (spare) forget_spare(*attempt, record.new_node);
  node_at(state, record.new_node).owner = record.job;
}

void apply_one(State& state, Time, const SpareDropped& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  if (!attempt || !find_spare(*attempt, record.node)) return;
  forget_spare(*attempt, record.node);
  attempt->spares_dropped.push_back(record.node);
  release(state, record.node, record.job);
}

void apply_one(State& state, Time at, const SpareAdded& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  if (!attempt || is_ending(*attempt) || !is_free(state, record.node)) return;
  attempt->spares.push_back(fresh_node(record.node, at));
  node_at(state, record.node).owner = record.job;
}

void apply_one(State& state, Time at, const PlacementAbandoned& record) {
  const Attempt* attempt = gathering(state, record.job, record.attempt);
  if (!attempt) return;
  Job& job = *find_job(state, record.job);
  job.measured_meanwhile += measured_for(state, job, *attempt, at);
  for (const AttemptNode& node : attempt->nodes) release(state, node.id, record.job);
  release_spares(state, job, *attempt);
  if (!job.waiting_since) job.waiting_since = attempt->placed_at;
  job.abandoned += 1;
  job.abandoned_alike = record.reason == job.abandoned_for ? job.abandoned_alike + 1 : 1;
  job.abandoned_for = record.reason;
  job.phase = Queued{record.reason, record.retry_at};
}

void apply_one(State& state, Time at, const HostsAsked& record) {
  Job* job = find_job(state, record.job);
  if (job) job->asked = AskedHosts{at, {record.nodes.begin(), record.nodes.end()}};
}

void apply_one(State& state, Time, const AnswersAwaited& record) {
  if (!gathering(state, record.job, record.attempt)) return;
  find_job(state, record.job)->awaited.insert(record.nodes.begin(), record.nodes.end());
}

void apply_one(State& state, Time at, const AttemptEnded& record) {
  const Attempt* attempt = find_attempt(state, record.job, record.attempt);
  if (!attempt || !(phase_of<Stopping>(*attempt) || phase_of<Collecting>(*attempt))) return;
  Job& job = *find_job(state, record.job);
  job.past.push_back(past_of(job, *attempt, record, at));
  give_back(state, job, *attempt);
  job.phase = Queued{};
}

}  // namespace muster

#include <algorithm>

#include "scheduler/apply/parts.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/resume_point.h"

namespace muster {

namespace {

// The node that a report is about, while its attempt is in phase P.
template <class P, class Report>
AttemptNode* reporting(State& state, const Report& report) {
  Attempt* attempt = find_attempt(state, report.job, report.attempt);
  return attempt && phase_of<P>(*attempt) ? find_node(*attempt, report.node) : nullptr;
}

// Or while it is prepared to join the others.
template <class P, class Report>
AttemptNode* reporting_or_joining(State& state, const Report& report) {
  Attempt* attempt = find_attempt(state, report.job, report.attempt);
  AttemptNode* node = attempt ? find_node(*attempt, report.node) : nullptr;
  const bool joins = node && is_active(*node) && is_preparing(*node);
  return joins && phase_of<Running>(*attempt) ? node : reporting<P>(state, report);
}

// Or one of its spares, which is checked and given files whenever it was added.
template <class P, class Report>
AttemptNode* reporting_or_spare(State& state, const Report& report) {
  Attempt* attempt = find_attempt(state, report.job, report.attempt);
  if (!attempt || is_ending(*attempt)) return nullptr;
  if (AttemptNode* spare = find_spare(*attempt, report.node)) return spare;
  return reporting_or_joining<P>(state, report);
}

// A node that sends what its ranks wrote: at the end, or when it has left before.
template <class Report>
AttemptNode* delivering(State& state, const Report& report) {
  Attempt* attempt = find_attempt(state, report.job, report.attempt);
  AttemptNode* node = attempt ? find_node(*attempt, report.node) : nullptr;
  const bool has_left = node && node->departure && is_quiet(*node);
  return has_left ? node : reporting<Collecting>(state, report);
}

Rank* find_rank(Attempt& attempt, const RankExited& exit) {
  const auto count = static_cast<std::int64_t>(attempt.ranks.size());
  if (exit.rank.value < 0 || exit.rank.value >= count) return nullptr;
  Rank& rank = attempt.ranks[static_cast<std::size_t>(exit.rank.value)];
  return node_of(attempt, rank).id == exit.node ? &rank : nullptr;
}

void start_ranks(Attempt& attempt, const NodeId& id, Time at) {
  for (Rank& rank : ranks_on(attempt, id)) {
    if (std::holds_alternative<RankWaiting>(rank.state)) rank.state = RankRunning{at};
  }
}

bool all_started(const Attempt& attempt) {
  return std::ranges::all_of(
      attempt.nodes, [](const AttemptNode& node) { return !is_active(node) || has_started(node); });
}

void see_checkpoint(Job& job, Attempt& attempt, const std::optional<CheckpointRef>& checkpoint) {
  if (!checkpoint || !is_on_lineage(job, *checkpoint) || is_foreign(job, *checkpoint)) return;
  keep_newer(attempt.newest_checkpoint, checkpoint);
  keep_newer(job.newest_checkpoint, checkpoint);
}

void see_certified(Job& job, const std::optional<CheckpointRef>& checkpoint) {
  if (!checkpoint || !is_on_lineage(job, *checkpoint) || is_foreign(job, *checkpoint)) return;
  keep_newer(job.newest_certified, checkpoint);
}

// The attempt is over, but its processes were not: now they are.
void clean_up(State& state, const NodeClean& report) {
  Node& node = node_at(state, report.node);
  const bool about_it =
      node.unclean && node.unclean->job == report.job && node.unclean->attempt == report.attempt;
  if (!about_it || !report.unkillable.empty()) return;
  node.unclean.reset();
  node.owner.reset();
}

}  // namespace

void see_outputs(AttemptNode& node, Time at) {
  if (auto* waits = std::get_if<NotCollected>(&node.collection.state)) waits->seen = at;
}

void run_when_started(Attempt& attempt, Time at) {
  if (!phase_of<Starting>(attempt) || !all_started(attempt)) return;
  attempt.phase = Running{at};
  attempt.running_since = at;
}

void apply_one(State& state, Time at, const NodeChecked& record) {
  AttemptNode* node = reporting_or_spare<Gathering>(state, record);
  if (!node || node->checked) return;
  note_measured(state, record.job, record.node, at);
  node->checked = record;
  if (node->join) node->join->asked_at = at;
  Job& job = *find_job(state, record.job);
  const bool before_first_launch = job.forks.empty() && !job.newest_checkpoint;
  if (!before_first_launch) return;
  if (record.newest_checkpoint) job.found.push_back(*record.newest_checkpoint);
  if (record.newest_certified) job.found.push_back(*record.newest_certified);
}

void apply_one(State& state, Time at, const StagingSeen& record) {
  AttemptNode* node = reporting_or_spare<Staging>(state, record);
  if (!node) return;
  node->staging_seen = at;
  if (!node->staged) node->preparing = record.doing;
}

void apply_one(State& state, Time at, const NodeStaged& record) {
  AttemptNode* node = reporting_or_spare<Staging>(state, record);
  if (!node || node->staged) return;
  node->staged = record;
  node->preparing.clear();
  if (node->join) node->join->asked_at = at;
}

void apply_one(State& state, Time, const PortsReserved& record) {
  AttemptNode* node = reporting_or_joining<Reserving>(state, record);
  if (node && !node->ports) node->ports = record;
}

void apply_one(State& state, Time at, const NodeStarted& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  AttemptNode* node = attempt ? find_node(*attempt, record.node) : nullptr;
  if (!node || node->started || !may_have_started(*attempt, *node)) return;
  node->started = record;
  if (record.error.empty()) start_ranks(*attempt, record.node, at);
  run_when_started(*attempt, at);
}

void apply_one(State& state, Time, const RankExited& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  Rank* rank = attempt && attempt->launched ? find_rank(*attempt, record) : nullptr;
  if (rank && !std::holds_alternative<RankDone>(rank->state)) rank->state = RankDone{record};
}

void apply_one(State& state, Time at, const ProgressSeen& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  if (!attempt || !attempt->launched) return;
  if (!attempt->last_step || record.step > *attempt->last_step) attempt->stepped_at = at;
  attempt->last_step = std::max(attempt->last_step.value_or(record.step), record.step);
  const auto before = attempt->newest_checkpoint;
  see_checkpoint(*find_job(state, record.job), *attempt, record.checkpoint);
  const auto& newest = attempt->newest_checkpoint;
  if (newest && !(before && is_same(*before, *newest))) attempt->saved_at = at;
}

// Counts only once the ranks were told to stop: before that they could still be started.
void apply_one(State& state, Time at, const NodeClean& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  AttemptNode* node = attempt ? find_node(*attempt, record.node) : nullptr;
  if (!node) return clean_up(state, record);
  if (!attempt->launched || !(is_ending(*attempt) || node->departure)) return;
  Job& job = *find_job(state, record.job);
  see_checkpoint(job, *attempt, record.newest_checkpoint);
  see_certified(job, record.newest_certified);
  if (is_clean(*node)) return;
  if (node->departure) see_outputs(*node, at);
  if (record.unkillable.empty()) {
    node->stopped = ProvenClean{};
    lose_ranks(*attempt, record.node, at);
  } else if (!unkillable_since(*node)) {
    node->stopped = Unkillable{at};
  }
}

void apply_one(State& state, Time at, const CollectionSeen& record) {
  if (AttemptNode* node = delivering(state, record)) see_outputs(*node, at);
}

// An error may take back what had arrived; told twice, it counts once.
void apply_one(State& state, Time at, const OutputsCollected& record) {
  AttemptNode* node = delivering(state, record);
  if (!node || collection_failure(*node)) return;
  if (record.error.empty()) {
    node->collection.state = Collected{};
    return;
  }
  auto* collecting =
      std::get_if<Collecting>(&find_attempt(state, record.job, record.attempt)->phase);
  // What goes to stores is not all there any more: it is waited for, and begun again.
  if (collecting && has_delivered(*node)) collecting->delivers = false;
  node->collection.state = CollectionFailed{record.error, at};
  node->collection.failures += 1;
}

void apply_one(State& state, Time, const OutputsDelivered& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  auto* collecting = attempt ? std::get_if<Collecting>(&attempt->phase) : nullptr;
  if (!collecting || !collecting->delivers || collecting->error) return;
  collecting->error = record.error;
  find_job(state, record.job)->not_uploaded = record.error;
}

void apply_one(State& state, Time, const StallSeen& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  if (!attempt || !phase_of<Running>(*attempt)) return;
  attempt->stall = record;
  if (record.stall == StallKind::over) attempt->stall.reset();
}

}  // namespace muster

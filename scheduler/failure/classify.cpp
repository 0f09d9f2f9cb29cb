#include "scheduler/failure/classify.h"

#include <algorithm>

#include "scheduler/failure/first_failure.h"
#include "scheduler/node/fault_drain.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/rank_map.h"
#include "scheduler/state/resume_point.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

bool made_progress(const Attempt& attempt) {
  return is_beyond(attempt.newest_checkpoint, attempt.resume_from) ||
         attempt.last_step.value_or(0) > base_step(attempt.resume_from);
}

const RankExited* exit_of(const Attempt& attempt, const RankId& id) {
  for (const Rank& rank : attempt.ranks) {
    const auto* done = std::get_if<RankDone>(&rank.state);
    if (done && rank.id == id) return &done->exit;
  }
  return nullptr;
}

bool ended_by_itself(const Rank& rank) {
  const auto* done = std::get_if<RankDone>(&rank.state);
  return done && !done->exit.status.ok() && !done->exit.asked_to_stop;
}

const RankExited* first_by_itself(const std::vector<Failure>& failures, const Attempt& attempt) {
  for (const Failure& failure : failures) {
    if (!failure.rank) continue;
    const Rank& rank = attempt.ranks.at(static_cast<std::size_t>(failure.rank->value));
    if (ended_by_itself(rank)) return &std::get<RankDone>(rank.state).exit;
  }
  return nullptr;
}

// Whose words count: the rank that is named, or of those that may have been first the earliest that
// does not merely echo another's failure.
const RankExited* telling_rank(const Attempt& attempt, const Attribution& attribution) {
  const RankExited* earliest = nullptr;
  for (const Failure& failure : attribution.first) {
    const RankExited* exit = failure.rank ? exit_of(attempt, *failure.rank) : nullptr;
    if (exit == nullptr) continue;
    if (!is_secondary(*exit)) return exit;
    if (earliest == nullptr) earliest = exit;
  }
  return earliest;
}

// A rank that was stopped on its way out has the status of the stop, one that left too early that
// of success: another's is taken.
void take_words(AttemptCause& cause, const Attempt& attempt, const std::vector<Failure>& failures,
                const Attribution& attribution) {
  const RankExited* telling = telling_rank(attempt, attribution);
  if (telling == nullptr) return;
  cause.last_lines = telling->last_lines;
  cause.rules = telling->rules;
  const bool has_no_status = telling->asked_to_stop || telling->status.ok();
  const RankExited* ended = has_no_status ? first_by_itself(failures, attempt) : telling;
  if (ended != nullptr) cause.status = ended->status;
}

// When a node was lost no rank's words count.
void take_class(AttemptCause& cause, bool is_loss) {
  cause.failure_class = is_loss ? FailureClass::infra : FailureClass::user;
  if (is_loss) cause.rules = {};
  const auto& rule = cause.rules.rule;
  if (rule) cause.failure_class = rule->failure_class.value_or(cause.failure_class);
}

// Of several ranks it may be unknown which was first, and known where. What may be the consequence
// of another's failure says nothing about its node.
std::optional<NodeId> culprit_node(const std::vector<Failure>& failures) {
  const bool is_one = std::ranges::all_of(failures, [&](const Failure& failure) {
    return failure.node == failures.front().node && failure.judgement.standing > Standing::unclear;
  });
  return is_one ? std::optional(failures.front().node) : std::nullopt;
}

bool has_node(const std::vector<Failure>& failures) {
  return std::ranges::any_of(failures, [](const Failure& failure) { return !failure.rank; });
}

bool is_failure(StopReason reason) {
  return reason == StopReason::rank_failed || reason == StopReason::node_lost;
}

// A loss that stopped the attempt is told in its own words, unless a rank had failed before it.
void blame(AttemptCause& cause, const Attempt& attempt, const std::vector<Failure>& failures) {
  const Attribution attribution = attribute(failures);
  if (attribution.first.empty()) return;
  cause.first_failure = journal_form(attribution);
  const bool is_loss = has_node(attribution.first);
  const bool loss_was_told = cause.reason == StopReason::node_lost;
  if (loss_was_told && (is_loss || !attribution.is_named)) return;
  take_words(cause, attempt, failures, attribution);
  take_class(cause, is_loss);
  cause.sentence = attribution_sentence(attribution);
  const RankExited* telling = telling_rank(attempt, attribution);
  const bool ended_early = telling && telling->status.ok();  // no node does that
  if (!ended_early) cause.first_node = culprit_node(attribution.first);
  if (attribution.is_named) cause.first_rank = attribution.first.front().rank;
}

// Nobody failed: one or all did not go on. Who held the others up is the one to be named.
void blame_stall(AttemptCause& cause, const StallSeen& stall) {
  cause.first_rank = stall.rank;
  cause.first_failure.emplace();
  cause.first_failure->rank = stall.rank;
  cause.first_failure->node = stall.blamed;
  cause.first_failure->evidence = stall.evidence;
}

FailureClass class_of(StopReason reason) {
  if (reason == StopReason::hung) return FailureClass::hang;
  if (reason == StopReason::faulty) return FailureClass::hw;
  const bool is_lost = reason == StopReason::node_lost || reason == StopReason::start_failed;
  if (is_lost) return FailureClass::infra;
  const bool is_moved = reason == StopReason::drained || reason == StopReason::preempted ||
                        reason == StopReason::rescaled;
  return is_moved ? FailureClass::preempted : FailureClass::user;
}

AttemptCause reported_cause(const Attempt& attempt, const StopBegun& why) {
  AttemptCause cause;
  cause.reason = why.reason;
  cause.succeeded = why.reason == StopReason::finished;
  cause.failure_class = class_of(why.reason);
  cause.sentence = why.sentence;
  cause.made_progress = made_progress(attempt);
  cause.first_node = why.blamed;
  if (why.in_doubt) cause.failure_class = FailureClass::sdc;
  if (why.lasting) {
    cause.failure_class = FailureClass::user;
    cause.first_node.reset();
  }
  return cause;
}

// A check found a node unfit while the attempt was stopped for something else: that is why.
void blame_fault(AttemptCause& cause, const NodeFaulted& fault) {
  cause.sentence = fault_text(fault) + "; " + cause.sentence;
  cause.first_node = fault.node;
  cause.failure_class = fault.fault.in_doubt ? FailureClass::sdc : FailureClass::hw;
  cause.rules = {};
}

bool may_follow_a_fault(StopReason reason) {
  return is_failure(reason) || reason == StopReason::hung;
}

}  // namespace

std::string failures_so_far(const Attempt& attempt, std::optional<std::size_t> node_index) {
  std::vector<std::string> ends;
  const auto ranks = node_index ? ranks_on(attempt, *node_index) : std::span(attempt.ranks);
  for (const Rank& rank : ranks) {
    if (!ended_by_itself(rank) || !(node_index || takes_part(attempt, rank))) continue;
    const auto& exit = std::get<RankDone>(rank.state).exit;
    ends.push_back("rank " + std::to_string(rank.id.value) + " on " + exit.node.value + " " +
                   exit_text(exit.status));
  }
  return list_text(ends);
}

AttemptCause cause_of(const Job& job, const Attempt& attempt, const StopBegun& why) {
  AttemptCause cause = reported_cause(attempt, why);
  if (why.reason == StopReason::hung && attempt.stall) blame_stall(cause, *attempt.stall);
  if (is_failure(why.reason)) blame(cause, attempt, failures_of(attempt, runs_mpirun(job.spec)));
  const NodeFaulted* fault = stopping_fault(attempt);
  if (fault && may_follow_a_fault(why.reason)) blame_fault(cause, *fault);
  return cause;
}

AttemptCause cause_on_node(const Job& job, const Attempt& attempt, const StopBegun& why) {
  AttemptCause cause = reported_cause(attempt, why);
  const AttemptNode* node = why.blamed ? find_node(attempt, *why.blamed) : nullptr;
  if (!is_failure(why.reason) || !node) return cause;
  const auto index = static_cast<std::size_t>(node - attempt.nodes.data());
  blame(cause, attempt, failures_of(attempt, runs_mpirun(job.spec), index));
  return cause;
}

}  // namespace muster

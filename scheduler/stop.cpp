// The end of an attempt: every node proves that nothing of it can run or write any more, outputs
// are collected, the cause is told.
#include <algorithm>

#include "scheduler/classify.h"
#include "scheduler/limits.h"
#include "scheduler/lookup.h"
#include "scheduler/node_standing.h"
#include "scheduler/sentences.h"
#include "scheduler/turn.h"

namespace muster {

namespace {

Milliseconds longest_grace(const StopBegun& why) {
  return std::max(why.grace, why.grace_max);
}

// Stuck processes can still finish a write when the kernel lets go of them, so they are given the
// time of a lost node.
bool stuck_too_long(Turn& turn, const Job& job, const AttemptNode& node) {
  return node.unkillable_since &&
         turn.moment.reached(*node.unkillable_since + unkillable_limit + job.target.lease);
}

bool lease_is_over(Turn& turn, const Job& job, const AttemptNode& node) {
  const Unlinked* link = unlinked(turn.state, node.id);
  return link && turn.moment.reached(link->since + job.target.lease + lease_margin);
}

bool never_proves(Turn& turn, const Attempt& attempt) {
  const Stopping& stopping = *phase_of<Stopping>(attempt);
  return turn.moment.reached(stopping.since + longest_grace(stopping.why) + proof_limit);
}

std::optional<FenceProof> fence_proof(Turn& turn, const Job& job, const Attempt& attempt,
                                      const AttemptNode& node) {
  if (!attempt.launched) return FenceProof::never_started;
  if (node.agent_changed) {
    return node.boot_changed ? FenceProof::boot_id_changed : FenceProof::agent_restarted;
  }
  if (lease_is_over(turn, job, node) || stuck_too_long(turn, job, node)) {
    return FenceProof::lease_expired;
  }
  if (never_proves(turn, attempt)) return FenceProof::none;
  return std::nullopt;
}

// ---- outputs

std::string why_not_copied(const Turn& turn, const AttemptNode& node) {
  const std::string& name = node.id.value;
  if (node.collected) return node.collected->error;
  if (!is_source_of_outputs(node)) return name + " has not proven that its ranks are gone";
  const Unlinked* link = unlinked(turn.state, node.id);
  if (link) return link_text(node.id, link->failure);
  return name + " sent nothing for " + duration_text(collect_limit);
}

std::string left_behind_text(const Turn& turn, const Attempt& attempt) {
  std::vector<std::string> parts;
  for (const AttemptNode& node : attempt.nodes) {
    if (!node.started || !node.started->error.empty() || has_delivered(node)) continue;
    const std::string& directory = node.started->directory;
    parts.push_back("the outputs of " + node.id.value + " were not copied (" +
                    why_not_copied(turn, node) + "): what it has of them is still on " +
                    node.id.value + " in outputs/ and logs/ of " +
                    (directory.empty() ? "the job's directory" : directory));
  }
  return list_text(parts);
}

void end_attempt(Turn& turn, const Job& job, const Attempt& attempt, const StopBegun& why) {
  AttemptCause cause = cause_of(job, attempt, why);
  cause.left_behind = left_behind_text(turn, attempt);
  for (const AttemptNode& node : attempt.nodes) {
    if (node.is_unproven()) cause.unproven.push_back(node.id);
  }
  remember_failure(turn, job, attempt, cause);
  turn.decide(AttemptEnded{job.id, attempt.id, std::move(cause), attempt.newest_checkpoint});
}

Milliseconds pause_after(int failures) {
  return std::min(retry_collection_most, retry_collection_first * (1 << std::min(failures - 1, 8)));
}

// Whether the node is asked again, at once or later.
bool tries_again(Turn& turn, const Job& job, const Attempt& attempt, const AttemptNode& node) {
  if (job.cancel) return false;
  if (turn.moment.reached(*node.collect_failed_at + pause_after(node.collect_failures))) {
    turn.decide(CollectionBegun{job.id, attempt.id, node.id});
  }
  return true;
}

// A job that is done waits for a node longer than one that shall run again.
bool awaits_outputs(Turn& turn, const Job& job, const Attempt& attempt, const AttemptNode& node) {
  if (!may_deliver(node)) return false;
  if (node.collected) return tries_again(turn, job, attempt, node);
  const Collecting& collecting = *phase_of<Collecting>(attempt);
  if (const Unlinked* link = unlinked(turn.state, node.id)) {
    const bool is_done = collecting.why && collecting.why->reason == StopReason::finished;
    const Milliseconds limit = is_done && !job.cancel ? collect_link_limit : job.target.unreachable;
    return !turn.moment.reached(link->since + limit);
  }
  const Time heard = std::max(collecting.since, node.collection_seen.value_or(collecting.since));
  return !turn.moment.reached(heard + collect_limit);
}

// A user who cancels what is already stopping need not wait for the grace it was given.
bool hurry(Turn& turn, const Job& job, const Attempt& attempt) {
  const StopBegun& why = phase_of<Stopping>(attempt)->why;
  if (!job.cancel || !job.cancel->grace || *job.cancel->grace >= longest_grace(why)) return false;
  StopBegun sooner = why;
  sooner.grace = sooner.grace_max = *job.cancel->grace;
  turn.decide(std::move(sooner));
  return true;
}

}  // namespace

void stop(Turn& turn, const Job& job, const Attempt& attempt) {
  if (hurry(turn, job, attempt)) return;
  bool all_quiet = true;
  for (const AttemptNode& node : attempt.nodes) {
    if (node.is_quiet()) continue;
    all_quiet = false;
    if (const auto proof = fence_proof(turn, job, attempt, node)) {
      turn.decide(NodeFenced{job.id, attempt.id, node.id, *proof});
    }
  }
  if (!all_quiet) return;
  if (attempt.launched) return turn.decide(CollectionBegun{job.id, attempt.id});
  end_attempt(turn, job, attempt, phase_of<Stopping>(attempt)->why);
}

void collect(Turn& turn, const Job& job, const Attempt& attempt) {
  bool waiting = false;
  for (const AttemptNode& node : attempt.nodes) {
    waiting = awaits_outputs(turn, job, attempt, node) || waiting;
  }
  const auto& why = phase_of<Collecting>(attempt)->why;
  if (!waiting && why) end_attempt(turn, job, attempt, *why);
}

}  // namespace muster

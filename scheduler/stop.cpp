// The end of an attempt: every node proves that nothing of it can run or write any more, outputs
// are collected, the cause is told.
#include <algorithm>

#include "scheduler/classify.h"
#include "scheduler/limits.h"
#include "scheduler/lookup.h"
#include "scheduler/turn.h"

namespace muster {

namespace {

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

std::optional<FenceProof> fence_proof(Turn& turn, const Job& job, const Attempt& attempt,
                                      const AttemptNode& node) {
  if (!attempt.launched) return FenceProof::never_started;
  if (node.agent_changed) {
    return node.boot_changed ? FenceProof::boot_id_changed : FenceProof::agent_restarted;
  }
  if (lease_is_over(turn, job, node) || stuck_too_long(turn, job, node)) {
    return FenceProof::lease_expired;
  }
  return std::nullopt;
}

void end_attempt(Turn& turn, const Job& job, const Attempt& attempt, const StopBegun& why) {
  turn.decide(
      AttemptEnded{job.id, attempt.id, cause_of(job, attempt, why), attempt.newest_checkpoint});
}

// Whatever cannot be reached for longer than a running attempt would wait is left behind.
bool awaits_outputs(Turn& turn, const Job& job, const AttemptNode& node) {
  const bool can_collect = node.clean && node.clean->unkillable.empty() && node.started;
  if (!can_collect || node.collected) return false;
  const Unlinked* link = unlinked(turn.state, node.id);
  return !link || !turn.moment.reached(link->since + job.target.unreachable);
}

// A user who cancels what is already stopping need not wait for the grace it was given.
bool hurry(Turn& turn, const Job& job, const Attempt& attempt) {
  const StopBegun& why = phase_of<Stopping>(attempt)->why;
  if (!job.cancel || !job.cancel->grace || *job.cancel->grace >= why.grace) return false;
  StopBegun sooner = why;
  sooner.grace = *job.cancel->grace;
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
    waiting = awaits_outputs(turn, job, node) || waiting;
  }
  const auto& why = phase_of<Collecting>(attempt)->why;
  if (!waiting && why) end_attempt(turn, job, attempt, *why);
}

}  // namespace muster

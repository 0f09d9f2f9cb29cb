#include "scheduler/attempt/fencing.h"

#include <algorithm>

#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"

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

// The node's own going may have begun before the end of the attempt.
Time should_have_proven(const Attempt& attempt, const AttemptNode& node) {
  if (node.leaves) return node.left_at + node.leaves->grace + proof_limit;
  const Stopping& stopping = *phase_of<Stopping>(attempt);
  return stopping.since + longest_grace(stopping.why) + proof_limit;
}

std::optional<FenceProof> fence_proof(Turn& turn, const Job& job, const Attempt& attempt,
                                      const AttemptNode& node) {
  if (!attempt.launched || !node.may_have_started()) return FenceProof::never_started;
  if (node.agent_changed) {
    return node.boot_changed ? FenceProof::boot_id_changed : FenceProof::agent_restarted;
  }
  if (lease_is_over(turn, job, node) || stuck_too_long(turn, job, node)) {
    return FenceProof::lease_expired;
  }
  if (turn.moment.reached(should_have_proven(attempt, node))) return FenceProof::none;
  return std::nullopt;
}

}  // namespace

Milliseconds longest_grace(const StopBegun& why) {
  return std::max(why.grace, why.grace_max);
}

void fence(Turn& turn, const Job& job, const Attempt& attempt, const AttemptNode& node) {
  if (const auto proof = fence_proof(turn, job, attempt, node)) {
    turn.decide(NodeFenced{job.id, attempt.id, node.id, *proof});
  }
}

}  // namespace muster

// The end of an attempt: every node proves that nothing of it can run or write any more, outputs
// are collected, the cause is told.
#include "scheduler/attempt/parts.h"

#include <algorithm>

#include "scheduler/failure/classify.h"
#include "scheduler/node/status.h"
#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/sentences.h"
#include "scheduler/state/turn.h"

namespace muster {

namespace {

// Of those that are part of it, or that have left it.
std::string left_behind_text(const Turn& turn, const Attempt& attempt, bool have_left) {
  std::vector<std::string> parts;
  for (const AttemptNode& node : attempt.nodes) {
    if (is_active(node) == have_left) continue;
    if (std::string text = left_behind_text(turn, node); !text.empty()) {
      parts.push_back(std::move(text));
    }
  }
  return list_text(parts);
}

// Of a node that was released before, it may have turned out that the ranks are gone.
bool may_still_run(const State& state, const Job& job, const AttemptNode& node) {
  if (!is_unproven(node)) return false;
  const Node* known = find_node(state, node.id);
  return !is_released(node) || (known && known->unclean && known->unclean->job == job.id);
}

void end_attempt(Turn& turn, const Job& job, const Attempt& attempt, const StopBegun& why) {
  AttemptCause cause = cause_of(job, attempt, why);
  cause.left_behind = left_behind_text(turn, attempt, false);
  // The job went on without these: its success is one all the same.
  if (const std::string text = left_behind_text(turn, attempt, true); !text.empty()) {
    std::string& told = cause.succeeded ? cause.sentence : cause.left_behind;
    told += (told.empty() ? "" : "; ") + text;
  }
  for (const AttemptNode& node : attempt.nodes) {
    if (may_still_run(turn.state, job, node)) cause.unproven.push_back(node.id);
  }
  remember_failure(turn, job, attempt, cause);
  if (cause.succeeded) remember_proven(turn, job, attempt);
  turn.decide(AttemptEnded{job.id, attempt.id, std::move(cause), attempt.newest_checkpoint});
}

Milliseconds longest_grace(const StopBegun& why) {
  return std::max(why.grace, why.grace_max);
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

// Stuck processes can still finish a write when the kernel lets go of them, so they are given the
// time of a lost node.
bool stuck_too_long(Turn& turn, const Job& job, const AttemptNode& node) {
  const auto since = unkillable_since(node);
  return since &&
         turn.moment.reached(*since + unkillable_limit + lease_of(turn.state, job, node.id));
}

bool lease_is_over(Turn& turn, const Job& job, const AttemptNode& node) {
  const Unlinked* link = unlinked(turn.state, node.id);
  const Milliseconds lease = lease_of(turn.state, job, node.id);
  return link && turn.moment.reached(link->heard_at + lease + lease_margin(lease));
}

// The node's own going may have begun before the end of the attempt.
Time should_have_proven(const Attempt& attempt, const AttemptNode& node) {
  if (const auto& left = node.departure) return left->at + left->why.grace + proof_limit;
  const Stopping& stopping = *phase_of<Stopping>(attempt);
  return stopping.since + longest_grace(stopping.why) + proof_limit;
}

std::optional<FenceProof> fence_proof(Turn& turn, const Job& job, const Attempt& attempt,
                                      const AttemptNode& node) {
  if (!may_have_started(attempt, node)) return FenceProof::never_started;
  if (has_changed_agent(node)) {
    return has_rebooted(node) ? FenceProof::boot_id_changed : FenceProof::agent_restarted;
  }
  if (lease_is_over(turn, job, node) || stuck_too_long(turn, job, node)) {
    return FenceProof::lease_expired;
  }
  if (turn.moment.reached(should_have_proven(attempt, node))) return FenceProof::none;
  return std::nullopt;
}

// Where they were collected is not where the job file, or for logs the site, wants them.
bool delivers_outputs(const JobSpec& spec) {
  return spec.recorded.contains("store") ||
         std::ranges::any_of(spec.outputs, [](const auto& output) {
           return output.second.is_in_store || !output.second.asset_name.empty();
         });
}

// Only then it is known whether what they read from a store stayed the same.
bool has_streamed(const Attempt& attempt) {
  return std::ranges::any_of(attempt.nodes, [](const AttemptNode& node) {
    return node.staged && !node.staged->streamed.empty();
  });
}

}  // namespace

void stop(Turn& turn, const Job& job, const Attempt& attempt) {
  if (hurry(turn, job, attempt)) return;
  bool all_quiet = true;
  for (const AttemptNode& node : attempt.nodes) {
    if (is_released(node) || is_quiet(node)) continue;
    all_quiet = false;
    fence(turn, job, attempt, node);
  }
  if (!all_quiet) return;
  if (attempt.launched) return turn.decide(CollectionBegun{job.id, attempt.id});
  end_attempt(turn, job, attempt, phase_of<Stopping>(attempt)->why);
}

void collect(Turn& turn, const Job& job, const Attempt& attempt) {
  bool waiting = remove_departing(turn, job, attempt);
  for (const AttemptNode& node : attempt.nodes) {
    if (!is_active(node)) continue;
    waiting = awaits_outputs(turn, job, attempt, node) || waiting;
  }
  const Collecting& phase = *phase_of<Collecting>(attempt);
  if (waiting || !phase.why) return;
  const bool has_finished = phase.why->reason == StopReason::finished;
  const bool delivers = delivers_outputs(job.spec) || (has_finished && has_streamed(attempt));
  if (delivers && !phase.delivers) {
    return turn.decide(DeliveryBegun{job.id, attempt.id});
  }
  const bool is_delivered = !phase.delivers || phase.error || job.cancel;
  if (is_delivered) end_attempt(turn, job, attempt, *phase.why);
}

void fence(Turn& turn, const Job& job, const Attempt& attempt, const AttemptNode& node) {
  if (const auto proof = fence_proof(turn, job, attempt, node)) {
    turn.decide(NodeFenced{job.id, attempt.id, node.id, *proof});
  }
}

}  // namespace muster

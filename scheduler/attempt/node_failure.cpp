#include "scheduler/attempt/parts.h"

#include <algorithm>

#include "scheduler/failure/classify.h"
#include "scheduler/node/fault_drain.h"
#include "scheduler/node/status.h"
#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

// Until when a lost node is waited for.
Time end_of_patience(Milliseconds most, const Attempt& attempt, const Unlinked& link,
                     bool is_spared) {
  const Time latest = link.heard_at + most;
  if (link.failure.is_denied) return std::min(latest, link.heard_at + lost_when_denied);
  if (!is_spared) return latest;
  const Time moved = std::max(link.heard_at, attempt.stepped_at.value_or(link.heard_at));
  return std::min(latest, moved + lost_with_spare);
}

// Until the lost node is fenced nothing can begin, and without it the others finish no step. Beyond
// that time only a rank that still writes a checkpoint holds the next attempt up.
Milliseconds grace_without(Turn& turn, const Job& job, const NodeId& id, const Unlinked& link,
                           Milliseconds asked) {
  const Milliseconds lease = lease_of(turn.state, job, id);
  const Time fenced = link.heard_at + lease + lease_margin(lease);
  return std::clamp(fenced - end_of_grace - turn.moment.now(), Milliseconds{0}, asked);
}

}  // namespace

std::optional<StopBegun> noticed(Turn& turn, const Job& job, const Attempt& attempt,
                                 const AttemptNode& node) {
  if (!turn.troubled.contains(node.id)) return std::nullopt;
  const Node& known = *find_node(turn.state, node.id);
  if (!is_leaving(known, turn.moment)) return std::nullopt;
  const Time now = turn.moment.now();
  StopBegun why = stop_for(job, attempt, StopReason::preempted,
                           notice_text(known.id, *known.notice, now), known.id);
  if (!known.notice->leaves_at) return why;
  const Milliseconds left = *known.notice->leaves_at - notice_margin - now;
  why.grace = std::clamp(left, Milliseconds{0}, why.grace);
  why.grace_max = std::clamp(left, why.grace, std::max(why.grace, why.grace_max));
  return why;
}

std::optional<StopBegun> drained(Turn& turn, const Job& job, const Attempt& attempt,
                                 const AttemptNode& node) {
  if (!turn.troubled.contains(node.id)) return std::nullopt;
  const Node& known = *find_node(turn.state, node.id);
  const bool is_refused = is_cordoned(known, turn.moment) || known.fault_drain;
  if (!attempt.launched && !known.drained && is_refused) {
    return stop_for(job, attempt, StopReason::drained, *refusal_of(&known, turn.moment), node.id);
  }
  if (!known.drained) return std::nullopt;
  const bool moves = known.move_at && turn.moment.reached(*known.move_at);
  if (attempt.launched && !moves) return std::nullopt;
  const std::string when = attempt.launched ? "" : " before the ranks started";
  return stop_for(job, attempt, StopReason::drained,
                  node.id.value + " was drained" + when + ": " + known.drain_reason, node.id);
}

std::optional<StopBegun> faulty(const Job& job, const Attempt& attempt, const AttemptNode& node) {
  const NodeFaulted* fault = stopping_fault(attempt, &node.id);
  if (!fault) return std::nullopt;
  StopBegun why = stop_for(job, attempt, StopReason::faulty, fault_text(*fault), node.id);
  why.in_doubt = fault->fault.in_doubt;
  return why;
}

std::optional<StopBegun> rank_failed(const Job& job, const Attempt& attempt,
                                     std::size_t node_index) {
  std::string failures = failures_so_far(attempt, node_index);
  if (failures.empty()) return std::nullopt;
  return stop_for(job, attempt, StopReason::rank_failed, std::move(failures),
                  attempt.nodes[node_index].id);
}

std::optional<StopBegun> agent_lost(const Job& job, const Attempt& attempt,
                                    std::size_t node_index) {
  const AttemptNode& node = attempt.nodes[node_index];
  for (const Rank& rank : ranks_on(attempt, node_index)) {
    const auto* done = std::get_if<RankDone>(&rank.state);
    if (done && done->exit.asked_to_stop && !done->exit.status.ok()) {
      return stop_for(job, attempt, StopReason::node_lost,
                      "the agent of " + node.id.value + " stopped its ranks by itself", node.id);
    }
    if (!std::holds_alternative<RankGone>(rank.state)) continue;
    const char* what = has_rebooted(node) ? " rebooted" : " lost its ranks: its agent restarted";
    return stop_for(job, attempt, StopReason::node_lost, node.id.value + what, node.id);
  }
  return std::nullopt;
}

std::optional<StopBegun> unreachable(Turn& turn, const Job& job, const Attempt& attempt,
                                     std::size_t node_index, bool is_spared) {
  const NodeId& id = attempt.nodes[node_index].id;
  if (!turn.troubled.contains(id)) return std::nullopt;
  const Unlinked* link = unlinked(turn.state, id);
  if (!link || !has_unfinished_ranks(attempt, node_index)) return std::nullopt;
  const Milliseconds most = patience_with(turn.state, job, id);
  const Time end = end_of_patience(most, attempt, *link, is_spared);
  if (!turn.moment.reached(end)) return std::nullopt;
  StopBegun why = stop_for(job, attempt, StopReason::node_lost,
                           id.value + " was lost for " + duration_text(end - link->heard_at) +
                               ": " + link->failure.message,
                           id);
  why.grace = grace_without(turn, job, id, *link, why.grace);
  return why;
}

}  // namespace muster

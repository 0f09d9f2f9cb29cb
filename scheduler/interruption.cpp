// What stops an attempt before its time: the user, a failed rank, a node that is lost or leaves,
// a hang, the time limit.
#include <algorithm>

#include "scheduler/classify.h"
#include "scheduler/limits.h"
#include "scheduler/lookup.h"
#include "scheduler/node_standing.h"
#include "scheduler/sentences.h"
#include "scheduler/spares.h"
#include "scheduler/turn.h"

namespace muster {

namespace {

bool has_unfinished_ranks(const Attempt& attempt, std::size_t node_index) {
  const auto ranks = ranks_on(attempt, node_index);
  return std::any_of(ranks.begin(), ranks.end(), is_unfinished);
}

bool all_succeeded(const Attempt& attempt) {
  return std::all_of(attempt.ranks.begin(), attempt.ranks.end(), [](const Rank& rank) {
    const auto* done = std::get_if<RankDone>(&rank.state);
    return done && done->exit.status.ok();
  });
}

// Neither runs nor ended well. One look at each rank spares the two that tell what happened.
bool has_troubled_ranks(const Attempt& attempt) {
  return std::any_of(attempt.ranks.begin(), attempt.ranks.end(), [](const Rank& rank) {
    const auto* done = std::get_if<RankDone>(&rank.state);
    return done ? !done->exit.status.ok() : std::holds_alternative<RankGone>(rank.state);
  });
}

std::optional<StopBegun> canceled(const Job& job, const Attempt& attempt) {
  if (!job.cancel) return std::nullopt;
  StopBegun why = stop_for(job, attempt, StopReason::canceled, "cancelled by the user");
  if (job.cancel->grace) why.grace = why.grace_max = *job.cancel->grace;
  return why;
}

// What its ranks can still save, they save before the first host of it goes.
std::optional<StopBegun> leaving(Turn& turn, const Job& job, const Attempt& attempt) {
  const Node* first = nullptr;
  for (const AttemptNode& node : attempt.nodes) {
    if (!turn.troubled.contains(node.id)) continue;
    const Node* known = find_node(turn.state, node.id);
    if (!is_leaving(*known, turn.moment)) continue;
    const auto& when = known->notice->leaves_at;
    const bool sooner = !first || (when && (!first->notice->leaves_at ||
                                            *when < *first->notice->leaves_at));
    if (sooner) first = known;
  }
  if (!first) return std::nullopt;
  const Time now = turn.moment.now();
  StopBegun why = stop_for(job, attempt, StopReason::preempted,
                           notice_text(first->id, *first->notice, now), first->id);
  if (!first->notice->leaves_at) return why;
  const Milliseconds left = *first->notice->leaves_at - notice_margin - now;
  why.grace = std::clamp(left, Milliseconds{0}, why.grace);
  why.grace_max = std::clamp(left, why.grace, std::max(why.grace, why.grace_max));
  return why;
}

// Before the launch a drained node is given back at once; later only when its owner says so.
std::optional<StopBegun> drained(Turn& turn, const Job& job, const Attempt& attempt) {
  for (const AttemptNode& node : attempt.nodes) {
    if (!turn.troubled.contains(node.id)) continue;
    const Node* known = find_node(turn.state, node.id);
    if (!attempt.launched && !known->drained && is_set_aside(*known, turn.moment)) {
      return stop_for(job, attempt, StopReason::drained, *refusal_of(known, turn.moment), node.id);
    }
    if (!known->drained) continue;
    const bool moves = known->move_at && turn.moment.reached(*known->move_at);
    if (attempt.launched && !moves) continue;
    const std::string when = attempt.launched ? "" : " before the ranks started";
    return stop_for(job, attempt, StopReason::drained,
                    node.id.value + " was drained" + when + ": " + known->drain_reason, node.id);
  }
  return std::nullopt;
}

// The same attempt's nodes, once ranks may be there: an agent that changed took them with it.
std::optional<StopBegun> agent_lost(const Job& job, const Attempt& attempt) {
  for (const Rank& rank : attempt.ranks) {
    const AttemptNode& node = attempt.nodes.at(static_cast<std::size_t>(rank.node_index));
    const auto* done = std::get_if<RankDone>(&rank.state);
    if (done && done->exit.asked_to_stop && !done->exit.status.ok()) {
      return stop_for(job, attempt, StopReason::node_lost,
                      "the agent of " + node.id.value + " stopped its ranks by itself", node.id);
    }
    if (!std::holds_alternative<RankGone>(rank.state)) continue;
    const char* what = node.boot_changed ? " rebooted" : " lost its ranks: its agent started anew";
    return stop_for(job, attempt, StopReason::node_lost, node.id.value + what, node.id);
  }
  return std::nullopt;
}

// Until when a lost node is waited for. With a spare at hand a run that stands still moves on
// sooner.
Time end_of_patience(Turn& turn, const Job& job, const Attempt& attempt, const Unlinked& link) {
  const Time latest = link.since + job.target.unreachable;
  if (!has_ready_spare(turn, job, attempt)) return latest;
  const Time moved = std::max(link.since, attempt.stepped_at.value_or(link.since));
  return std::min(latest, moved + lost_with_spare);
}

std::optional<StopBegun> unreachable(Turn& turn, const Job& job, const Attempt& attempt) {
  for (std::size_t i = 0; i < attempt.nodes.size(); ++i) {
    const NodeId& id = attempt.nodes[i].id;
    if (!turn.troubled.contains(id)) continue;
    const Unlinked* link = unlinked(turn.state, id);
    if (!link || !has_unfinished_ranks(attempt, i)) continue;
    const Time end = end_of_patience(turn, job, attempt, *link);
    if (!turn.moment.reached(end)) continue;
    return stop_for(job, attempt, StopReason::node_lost,
                    id.value + " was lost for " + duration_text(end - link->since) + ": " +
                        link->failure.message,
                    id);
  }
  return std::nullopt;
}

std::optional<StopBegun> over_time(Turn& turn, const Job& job, const Attempt& attempt) {
  if (!job.spec.timeout || !attempt.running_since) return std::nullopt;
  const Time end = *attempt.running_since + (*job.spec.timeout - job.ran_for);
  if (!turn.moment.reached(end)) return std::nullopt;
  const std::string limit = duration_text(*job.spec.timeout);
  return stop_for(job, attempt, StopReason::time_limit, "limits.timeout of " + limit + " is over");
}

// Who hangs saves nothing, and his peers wait for him: they are given the time to say where they
// are, not to finish.
std::optional<StopBegun> hung(const Job& job, const Attempt& attempt) {
  if (!attempt.stall || attempt.stall->stall != StallKind::hung) return std::nullopt;
  StopBegun why = stop_for(job, attempt, StopReason::hung, attempt.stall->sentence,
                           attempt.stall->blamed);
  why.grace = std::min(why.grace, hang_grace);
  why.grace_max = Milliseconds{0};
  return why;
}

std::optional<StopBegun> rank_failed(const Job& job, const Attempt& attempt) {
  std::string failures = failures_so_far(attempt);
  if (failures.empty()) return std::nullopt;
  return stop_for(job, attempt, StopReason::rank_failed, std::move(failures));
}

std::optional<StopBegun> finished(const Job& job, const Attempt& attempt) {
  if (!phase_of<Running>(attempt) || !all_succeeded(attempt)) return std::nullopt;
  return stop_for(job, attempt, StopReason::finished, "every rank ended with 0");
}

}  // namespace

StopBegun stop_for(const Job& job, const Attempt& attempt, StopReason reason, std::string sentence,
                   std::optional<NodeId> blamed) {
  const StopSettings& stop = job.spec.muster.stop;
  StopBegun why{job.id, attempt.id, reason, std::move(sentence), stop.grace, std::move(blamed)};
  why.grace_max = stop.grace_max;
  return why;
}

std::set<NodeId> drained_or_unlinked(const State& state) {
  std::set<NodeId> troubled;
  for (const auto& [id, node] : state.nodes) {
    const bool is_lost = std::holds_alternative<Unlinked>(node.link);
    const bool is_refused = node.drained || node.notice || node.set_aside;
    if (is_refused || is_lost) troubled.insert(troubled.end(), id);
  }
  return troubled;
}

std::optional<StopBegun> interruption(Turn& turn, const Job& job, const Attempt& attempt) {
  if (auto why = finished(job, attempt)) return why;
  if (auto why = canceled(job, attempt)) return why;
  if (phase_of<Gathering>(attempt)) return std::nullopt;
  if (auto why = leaving(turn, job, attempt)) return why;
  if (!attempt.launched) {
    if (auto why = drained(turn, job, attempt)) return why;
    return unreachable(turn, job, attempt);
  }
  if (has_troubled_ranks(attempt)) {
    if (auto why = rank_failed(job, attempt)) return why;
    if (auto why = agent_lost(job, attempt)) return why;
  }
  if (auto why = unreachable(turn, job, attempt)) return why;
  if (auto why = hung(job, attempt)) return why;
  if (auto why = over_time(turn, job, attempt)) return why;
  return drained(turn, job, attempt);
}

}  // namespace muster

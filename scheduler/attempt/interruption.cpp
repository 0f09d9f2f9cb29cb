// What stops an attempt before its time: the user, a failed rank, a node that is lost or leaves,
// a hang, the time limit. An elastic attempt first tries to go on without the node.
#include <algorithm>

#include "scheduler/attempt/parts.h"
#include "scheduler/failure/classify.h"
#include "scheduler/placement/allocate.h"
#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/sentences.h"
#include "scheduler/state/turn.h"

namespace muster {

namespace {

// Neither runs nor ended well. One look at each rank spares the two that tell what happened.
bool has_troubled_ranks(const Attempt& attempt) {
  return std::ranges::any_of(attempt.ranks, [](const Rank& rank) {
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

// The first of them that says so, of those that take part.
template <class Trouble>
std::optional<StopBegun> first_of_nodes(const Attempt& attempt, Trouble trouble) {
  for (std::size_t i = 0; i < attempt.nodes.size(); ++i) {
    if (!takes_part(attempt, attempt.nodes[i])) continue;
    if (auto why = trouble(i)) return why;
  }
  return std::nullopt;
}

// The first host that goes sets the time.
std::optional<StopBegun> noticed(Turn& turn, const Job& job, const Attempt& attempt) {
  std::optional<StopBegun> first;
  std::optional<Time> leaves_at;
  for (const AttemptNode& node : attempt.nodes) {
    if (!takes_part(attempt, node)) continue;
    auto why = noticed(turn, job, attempt, node);
    if (!why) continue;
    const auto& when = find_node(turn.state, node.id)->notice->leaves_at;
    if (first && !(when && (!leaves_at || *when < *leaves_at))) continue;
    first = std::move(why);
    leaves_at = when;
  }
  return first;
}

std::optional<StopBegun> drained(Turn& turn, const Job& job, const Attempt& attempt) {
  return first_of_nodes(
      attempt, [&](std::size_t i) { return drained(turn, job, attempt, attempt.nodes[i]); });
}

std::optional<StopBegun> faulty(const Job& job, const Attempt& attempt) {
  if (attempt.faulted.empty()) return std::nullopt;
  return first_of_nodes(attempt,
                        [&](std::size_t i) { return faulty(job, attempt, attempt.nodes[i]); });
}

std::optional<StopBegun> agent_lost(const Job& job, const Attempt& attempt) {
  return first_of_nodes(attempt, [&](std::size_t i) { return agent_lost(job, attempt, i); });
}

std::optional<StopBegun> unreachable(Turn& turn, const Job& job, const Attempt& attempt) {
  return first_of_nodes(attempt, [&](std::size_t i) -> std::optional<StopBegun> {
    const NodeId& id = attempt.nodes[i].id;
    if (!turn.troubled.contains(id) || !unlinked(turn.state, id)) return std::nullopt;
    return unreachable(turn, job, attempt, i, has_ready_spare(turn, job, attempt));
  });
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
  StopBegun why =
      stop_for(job, attempt, StopReason::hung, attempt.stall->sentence, attempt.stall->blamed);
  why.grace = std::min(why.grace, hang_grace);
  why.grace_max = Milliseconds{0};
  return why;
}

std::optional<StopBegun> rank_failed(const Job& job, const Attempt& attempt) {
  std::string failures = failures_so_far(attempt);
  if (failures.empty()) return std::nullopt;
  return stop_for(job, attempt, StopReason::rank_failed, std::move(failures));
}

// The change by which the latest of the members came.
std::int64_t latest_coming(const Attempt& attempt) {
  std::int64_t latest = 0;
  for (const AttemptNode& node : attempt.nodes) {
    if (node.membership.is_member) latest = std::max(latest, node.membership.since);
  }
  return latest;
}

// A node that was made a member last may have come when the others were done, and waits for them,
// whoever has left since: it is given a moment to end too.
bool came_too_late(const Attempt& attempt, const Rank& rank) {
  const AttemptNode& node = node_of(attempt, rank);
  return node.join && is_unfinished(rank) && node.membership.since == latest_coming(attempt);
}

// Every rank that takes part ended with 0.
bool has_finished(Turn& turn, const Attempt& attempt) {
  bool any_done = false;
  bool any_late = false;
  std::int64_t last_ms = 0;
  for (const Rank& rank : attempt.ranks) {
    if (!takes_part(attempt, rank)) continue;
    const auto* done = std::get_if<RankDone>(&rank.state);
    const bool is_done = done && done->exit.status.ok();
    if (is_done) last_ms = std::max(last_ms, done->exit.at_ms);
    if (!is_done && !came_too_late(attempt, rank)) return false;
    any_done = any_done || is_done;
    any_late = any_late || !is_done;
  }
  if (!any_late) return true;
  return any_done && turn.moment.reached(from_ms(last_ms) + late_member_limit);
}

// Ranks that were to train together and never joined: each wrote the results of a training alone.
bool has_never_met(const Attempt& attempt) {
  return std::ranges::any_of(attempt.ranks, [](const Rank& rank) {
    const auto* done = std::get_if<RankDone>(&rank.state);
    return done && done->exit.evidence.never_met;
  });
}

std::optional<StopBegun> finished(Turn& turn, const Job& job, const Attempt& attempt) {
  if (!phase_of<Running>(attempt) || !has_finished(turn, attempt)) return std::nullopt;
  std::string sentence = "every rank ended with 0";
  if (has_never_met(attempt)) {
    sentence += "; warning: no rank ever listened on MASTER_PORT, so each of the " +
                count_text(attempt.ranks.size(), "rank") +
                " may have trained alone: see that the program joins them (WORLD_SIZE, RANK)";
  }
  return stop_for(job, attempt, StopReason::finished, sentence);
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
    const bool is_refused = node.drained || node.notice || node.set_aside || node.fault_drain;
    if (is_refused || is_lost) troubled.insert(troubled.end(), id);
  }
  return troubled;
}

std::optional<StopBegun> interruption(Turn& turn, const Job& job, const Attempt& attempt) {
  if (auto why = finished(turn, job, attempt)) return why;
  if (auto why = canceled(job, attempt)) return why;
  if (phase_of<Gathering>(attempt)) return std::nullopt;
  if (!departures(turn, job, attempt).empty()) return std::nullopt;
  if (auto why = noticed(turn, job, attempt)) return why;
  if (!attempt.launched) {
    if (auto why = drained(turn, job, attempt)) return why;
    return unreachable(turn, job, attempt);
  }
  if (auto why = faulty(job, attempt)) return why;
  if (has_troubled_ranks(attempt)) {
    if (auto why = rank_failed(job, attempt)) return why;
    if (auto why = agent_lost(job, attempt)) return why;
  }
  if (auto why = unreachable(turn, job, attempt)) return why;
  if (auto why = hung(job, attempt)) return why;
  if (auto why = over_time(turn, job, attempt)) return why;
  if (auto why = drained(turn, job, attempt)) return why;
  return unspared(turn, job, attempt);
}

}  // namespace muster

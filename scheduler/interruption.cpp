// What stops an attempt before its time: the user, a failed rank, a lost node, the time limit.
#include <algorithm>

#include "scheduler/classify.h"
#include "scheduler/limits.h"
#include "scheduler/lookup.h"
#include "scheduler/sentences.h"
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

StopBegun stop_for(const Job& job, const Attempt& attempt, StopReason reason, std::string sentence,
                   std::optional<NodeId> blamed = std::nullopt) {
  return {job.id,           attempt.id, reason, std::move(sentence), job.spec.muster.stop.grace,
          std::move(blamed)};
}

std::optional<StopBegun> canceled(const Job& job, const Attempt& attempt) {
  if (!job.cancel) return std::nullopt;
  StopBegun why = stop_for(job, attempt, StopReason::canceled, "cancelled by the user");
  why.grace = job.cancel->grace.value_or(why.grace);
  return why;
}

// Before the launch a drained node is given back at once; later only when its owner says so.
std::optional<StopBegun> drained(Turn& turn, const Job& job, const Attempt& attempt) {
  for (const AttemptNode& node : attempt.nodes) {
    if (!turn.troubled.contains(node.id)) continue;
    const Node* known = find_node(turn.state, node.id);
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

std::optional<StopBegun> unreachable(Turn& turn, const Job& job, const Attempt& attempt) {
  for (std::size_t i = 0; i < attempt.nodes.size(); ++i) {
    const NodeId& id = attempt.nodes[i].id;
    if (!turn.troubled.contains(id)) continue;
    const Unlinked* link = unlinked(turn.state, id);
    if (!link || !has_unfinished_ranks(attempt, i)) continue;
    if (!turn.moment.reached(link->since + job.target.unreachable)) continue;
    return stop_for(job, attempt, StopReason::node_lost,
                    id.value + " was lost for " + duration_text(job.target.unreachable) + ": " +
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

std::set<NodeId> drained_or_unlinked(const State& state) {
  std::set<NodeId> troubled;
  for (const auto& [id, node] : state.nodes) {
    const bool is_lost = std::holds_alternative<Unlinked>(node.link);
    if (node.drained || is_lost) troubled.insert(troubled.end(), id);
  }
  return troubled;
}

std::optional<StopBegun> interruption(Turn& turn, const Job& job, const Attempt& attempt) {
  if (auto why = finished(job, attempt)) return why;
  if (auto why = canceled(job, attempt)) return why;
  if (phase_of<Gathering>(attempt)) return std::nullopt;
  if (!attempt.launched) {
    if (auto why = drained(turn, job, attempt)) return why;
    return unreachable(turn, job, attempt);
  }
  if (has_troubled_ranks(attempt)) {
    if (auto why = rank_failed(job, attempt)) return why;
    if (auto why = agent_lost(job, attempt)) return why;
  }
  if (auto why = unreachable(turn, job, attempt)) return why;
  if (auto why = over_time(turn, job, attempt)) return why;
  return drained(turn, job, attempt);
}

}  // namespace muster

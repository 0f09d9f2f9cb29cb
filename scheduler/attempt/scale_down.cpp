#include "scheduler/attempt/parts.h"

#include <algorithm>

#include "scheduler/failure/classify.h"
#include "scheduler/failure/first_failure.h"
#include "scheduler/node/status.h"
#include "scheduler/restart/policy.h"
#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

struct Case {
  StopBegun why;
  bool is_certain =
      true;  // false: an attempt that cannot spare the node would wait a little longer
};

NodeLeaving leaves_of(const StopBegun& why) {
  return {why.job, why.attempt, *why.blamed, why.reason, why.sentence, why.grace};
}

std::optional<StopBegun> start_failed(Turn& turn, const Job& job, const Attempt& attempt,
                                      const AttemptNode& node) {
  if (node.started) {
    if (node.started->error.empty()) return std::nullopt;
    return stop_for(job, attempt, StopReason::start_failed,
                    node.id.value + " did not start its ranks: " + node.started->error, node.id);
  }
  const auto* starting = phase_of<Starting>(attempt);
  const Time launched_at = starting ? starting->since : node.joined_at;
  const Time since = node.join ? node.join->begun.value_or(launched_at) : launched_at;
  if (!turn.moment.reached(since + start_limit)) return std::nullopt;
  return stop_for(job, attempt, StopReason::start_failed,
                  node.id.value + " did not start its ranks within " + duration_text(start_limit),
                  node.id);
}

std::optional<StopBegun> cannot_be_told(const Job& job, const Attempt& attempt,
                                        const AttemptNode& node) {
  if (node.membership.error.empty()) return std::nullopt;
  return stop_for(job, attempt, StopReason::node_lost,
                  node.id.value + " did not get the list of workers: " + node.membership.error,
                  node.id);
}

// Of a node whose ranks may run. What would stop a fixed job comes first.
std::optional<StopBegun> trouble(Turn& turn, const Job& job, const Attempt& attempt,
                                 std::size_t index) {
  const AttemptNode& node = attempt.nodes[index];
  if (auto why = noticed(turn, job, attempt, node)) return why;
  if (auto why = faulty(job, attempt, node)) return why;
  if (auto why = rank_failed(job, attempt, index)) return why;
  if (auto why = agent_lost(job, attempt, index)) return why;
  if (auto why = unreachable(turn, job, attempt, index, false)) return why;
  if (auto why = drained(turn, job, attempt, node)) return why;
  if (auto why = start_failed(turn, job, attempt, node)) return why;
  return cannot_be_told(job, attempt, node);
}

std::optional<Case> case_of(Turn& turn, const Job& job, const Attempt& attempt, std::size_t index) {
  if (auto why = trouble(turn, job, attempt, index)) return Case{std::move(*why), true};
  if (auto why = unreachable(turn, job, attempt, index, true)) return Case{std::move(*why), false};
  return std::nullopt;
}

// The rules know that no other node will fare better, or what all have computed together is in
// doubt.
bool stops_all(const Job& job, const Attempt& attempt, const StopBegun& why) {
  if (why.in_doubt) return true;
  if (why.reason != StopReason::rank_failed) return false;
  const AttemptCause cause = cause_on_node(job, attempt, why);
  return asks_to_stop(job, cause) || casts_doubt(cause);
}

std::vector<NodeLeaving> leaves_of(const std::vector<Case>& cases, bool only_certain) {
  std::vector<NodeLeaving> leaves;
  for (const Case& one : cases) {
    if (one.is_certain || !only_certain) leaves.push_back(leaves_of(one.why));
  }
  return leaves;
}

// Neither a member nor about to be one: its going was not written down to the end.
std::vector<NodeLeaving> stragglers(Turn& turn, const Job& job, const Attempt& attempt) {
  std::vector<NodeLeaving> leaves;
  for (std::size_t i = 0; i < attempt.nodes.size(); ++i) {
    const AttemptNode& node = attempt.nodes[i];
    if (!is_active(node) || node.membership.is_member || is_joiner(node)) continue;
    const auto found = case_of(turn, job, attempt, i);
    leaves.push_back(found ? leaves_of(found->why)
                           : leaves_for(job, attempt, node.id, StopReason::node_lost,
                                        node.id.value + " takes part no more"));
  }
  return leaves;
}

// What failed here ended because a peer had gone.
bool only_followed(const Attempt& attempt, const AttemptNode& node) {
  const auto index = static_cast<std::size_t>(&node - attempt.nodes.data());
  const auto failures = failures_of(attempt, false, index);
  return !failures.empty() && std::ranges::all_of(failures, [](const Failure& failure) {
    return failure.judgement.standing == Standing::consequence;
  });
}

void remember_what_failed(Turn& turn, const Job& job, const Attempt& attempt,
                          const AttemptNode& node) {
  if (only_followed(attempt, node)) return;
  const AttemptCause cause = cause_on_node(job, attempt, as_stop(node.departure->why));
  remember_failure(turn, job, attempt, cause);
}

void release(Turn& turn, const Job& job, const Attempt& attempt, const AttemptNode& node) {
  if (may_have_started(attempt, node)) remember_what_failed(turn, job, attempt, node);
  turn.decide(NodeReleased{job.id, attempt.id, node.id, left_behind_text(turn, node)});
}

}  // namespace

NodeLeaving leaves_for(const Job& job, const Attempt& attempt, const NodeId& node,
                       StopReason reason, const std::string& sentence) {
  return leaves_of(stop_for(job, attempt, reason, sentence, node));
}

std::vector<NodeLeaving> departures(Turn& turn, const Job& job, const Attempt& attempt) {
  if (!attempt.has_members()) return {};
  std::vector<Case> cases;
  for (std::size_t i = 0; i < attempt.nodes.size(); ++i) {
    if (!attempt.nodes[i].membership.is_member) continue;
    if (auto found = case_of(turn, job, attempt, i)) cases.push_back(std::move(*found));
  }
  const auto stops = [&](const Case& one) { return stops_all(job, attempt, one.why); };
  if (std::ranges::any_of(cases, stops)) return {};
  const std::size_t all = member_nodes(attempt);
  const std::size_t least = node_range(job.spec).least;
  for (const bool only_certain : {false, true}) {
    auto leaving = leaves_of(cases, only_certain);
    if (!leaving.empty() && all - leaving.size() >= least) return leaving;
  }
  return {};
}

bool release_leavers(Turn& turn, const Job& job, const Attempt& attempt) {
  if (!attempt.has_members()) return false;
  const std::vector<NodeLeaving> leaving = departures(turn, job, attempt);
  if (!leaving.empty()) {
    std::vector<NodeId> ids;
    for (const NodeLeaving& leaves : leaving) ids.push_back(leaves.node);
    turn.decide(MembersChanged{job.id, attempt.id, attempt.members.epoch + 1,
                               next_members(attempt, ids, {}), "without " + names_text(ids)});
  }
  const auto late = stragglers(turn, job, attempt);
  for (const auto* some : {&leaving, &late}) {
    for (const NodeLeaving& leaves : *some) turn.decide(leaves);
  }
  return !leaving.empty() || !late.empty();
}

std::optional<StopBegun> unspared(Turn& turn, const Job& job, const Attempt& attempt) {
  if (!attempt.has_members()) return std::nullopt;
  for (std::size_t i = 0; i < attempt.nodes.size(); ++i) {
    if (!attempt.nodes[i].membership.is_member) continue;
    if (auto why = trouble(turn, job, attempt, i)) return why;
  }
  return std::nullopt;
}

std::optional<NodeLeaving> started_trouble(Turn& turn, const Job& job, const Attempt& attempt,
                                           std::size_t node_index) {
  const auto found = case_of(turn, job, attempt, node_index);
  return found ? std::optional(leaves_of(found->why)) : std::nullopt;
}

bool remove_departing(Turn& turn, const Job& job, const Attempt& attempt) {
  bool any = false;
  for (const AttemptNode& node : attempt.nodes) {
    if (is_active(node) || is_released(node)) continue;
    any = true;
    const bool may_run = may_have_started(attempt, node);
    if (may_run && !is_quiet(node))
      fence(turn, job, attempt, node);
    else if (!may_run || !awaits_outputs(turn, job, attempt, node))
      release(turn, job, attempt, node);
  }
  return any;
}

}  // namespace muster

#include "scheduler/placement/fitness.h"

#include <algorithm>

#include "scheduler/node/status.h"
#include "scheduler/placement/candidates.h"
#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/rank_map.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

std::string failures_text(const NodeChecked& checked) {
  std::vector<std::string> parts;
  for (const CheckFailure& failure : checked.failures) {
    parts.push_back(failure.check + ": " + failure.message);
  }
  return checked.node.value + " failed its start checks: " + list_text(parts);
}

std::optional<Unfit> unlinked_too_long(Turn& turn, const AttemptNode& node) {
  const Unlinked* link = unlinked(turn.state, node.id);
  const Time since = link ? std::max(link->since, node.joined_at) : node.joined_at;
  if (!turn.moment.reached(since + link_limit)) return std::nullopt;
  const std::string silence = node.id.value + " gave no answer for " + duration_text(link_limit);
  return Unfit{node.id, Unfitness::unreachable, link ? link_text(node.id, link->failure) : silence};
}

Unfit failed_checks(const NodeChecked& checked) {
  const bool lasting = std::ranges::any_of(
      checked.failures, [](const CheckFailure& failure) { return failure.lasting; });
  return {checked.node, lasting ? Unfitness::lasting : Unfitness::unhealthy,
          failures_text(checked)};
}

}  // namespace

std::optional<Unfit> unfit(Turn& turn, const Job& job, const AttemptNode& node) {
  if (auto refusal = refusal_of(find_node(turn.state, node.id), turn.moment)) {
    return Unfit{node.id, Unfitness::drained, std::move(*refusal)};
  }
  if (const LinkFailure* failure = permanent_failure(turn.state, job, node.id)) {
    return Unfit{node.id, Unfitness::unreachable, link_text(node.id, *failure)};
  }
  if (node.checked && !node.checked->failures.empty()) return failed_checks(*node.checked);
  const LinkUp* agent = linked_agent(turn.state, node.id);
  if (!agent) return unlinked_too_long(turn, node);
  if (const auto shortage = gpu_shortage(job.spec, *agent)) {
    return Unfit{node.id, Unfitness::lasting, node.id.value + " " + *shortage};
  }
  if (!node.checked && turn.moment.reached(node.joined_at + check_limit)) {
    return Unfit{
        node.id, Unfitness::unhealthy,
        node.id.value + " did not finish its start checks within " + duration_text(check_limit)};
  }
  return std::nullopt;
}

StopReason reason_of(Unfitness unfitness) {
  switch (unfitness) {
    case Unfitness::drained:
      return StopReason::drained;
    case Unfitness::unreachable:
      return StopReason::node_lost;
    case Unfitness::unhealthy:
    case Unfitness::lasting:
      return StopReason::start_failed;
  }
  return StopReason::start_failed;
}

bool has_passed_gate(const State& state, const AttemptNode& node) {
  return node.checked && node.checked->failures.empty() && linked_agent(state, node.id) != nullptr;
}

}  // namespace muster

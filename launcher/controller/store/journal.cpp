#include "launcher/controller/store/journal.h"

#include <algorithm>

#include "scheduler/state/lookup.h"

namespace muster {

namespace {

// It was part of the attempt, and is not any more while the others go on.
bool has_left(const Attempt& attempt, const NodeId& id) {
  const bool was_part =
      std::any_of(attempt.nodes.begin(), attempt.nodes.end(),
                  [&id](const AttemptNode& node) { return node.id == id && is_released(node); });
  return was_part && find_node(attempt, id) == nullptr;
}

}  // namespace

bool is_over(const State& state, const Journal& journal, const NodeId& node, const JobId& job,
             AttemptId attempt) {
  if (attempt.value < 0) return false;
  const Node* known = find_node(state, node);
  const bool still_stops = known != nullptr && known->unclean && known->unclean->job == job &&
                           known->unclean->attempt == attempt;
  if (still_stops) return false;
  if (const Job* live = find_job(state, job)) {
    const Attempt* active = active_attempt(*live);
    if (active != nullptr && active->id == attempt) return has_left(*active, node);
    return attempt.value < live->next_attempt;
  }
  const auto row = journal.job(job);
  return row && *row && (*row)->ended_at && attempt.value < (*row)->attempts;
}

}  // namespace muster

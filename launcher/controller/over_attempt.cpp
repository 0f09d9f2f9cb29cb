#include "launcher/controller/over_attempt.h"

#include "scheduler/lookup.h"

namespace muster {

bool is_over(const State& state, const Journal& journal, const NodeId& node, const JobId& job,
             AttemptId attempt) {
  if (attempt.value < 0) return false;
  const Node* known = find_node(state, node);
  const bool still_stops = known != nullptr && known->unclean && known->unclean->job == job &&
                           known->unclean->attempt == attempt;
  if (still_stops) return false;
  if (const Job* live = find_job(state, job)) {
    const Attempt* active = active_attempt(*live);
    return attempt.value < live->next_attempt && (active == nullptr || active->id != attempt);
  }
  const auto row = journal.job(job);
  return row && *row && (*row)->ended_at && attempt.value < (*row)->attempts;
}

}  // namespace muster

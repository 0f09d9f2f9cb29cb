#include "launcher/controller/store/job_leavings.h"

#include <algorithm>

#include "scheduler/state/lookup.h"

namespace muster {

namespace {

bool tells_of_left_outputs(const Record& record) {
  if (const auto* ended = record_as<AttemptEnded>(record)) {
    return !ended->cause.left_behind.empty() || !ended->cause.unproven.empty();
  }
  const auto* released = record_as<NodeReleased>(record);
  return released && !released->left_behind.empty();
}

// It was part of the attempt, and is not any more while the others go on.
bool has_left(const Attempt& attempt, const NodeId& id) {
  const bool was_part = std::ranges::any_of(
      attempt.nodes, [&id](const AttemptNode& node) { return node.id == id && is_released(node); });
  return was_part && find_node(attempt, id) == nullptr;
}

}  // namespace

std::vector<NodeId> nodes_given(const Record& record) {
  if (const auto* placed = record_as<AttemptPlaced>(record)) {
    std::vector<NodeId> nodes = placed->nodes;
    nodes.insert(nodes.end(), placed->spares.begin(), placed->spares.end());
    return nodes;
  }
  if (const auto* replaced = record_as<NodeReplaced>(record)) return {replaced->new_node};
  if (const auto* added = record_as<SpareAdded>(record)) return {added->node};
  if (const auto* taken = record_as<NodeAdded>(record)) return {taken->node};
  return {};
}

bool still_stops(const State& state, const NodeId& node, const JobId& job, AttemptId attempt) {
  const Node* known = find_node(state, node);
  return known != nullptr && known->unclean && known->unclean->job == job &&
         known->unclean->attempt == attempt;
}

Error records_removed(const JobId& job) {
  return Error{"job " + job.value + " cannot be resumed: its records were removed (journal in " +
               "retention.yml); submit its job file again"};
}

bool has_left_outputs(const std::vector<Record>& records) {
  return std::ranges::any_of(records, tells_of_left_outputs);
}

JobLeavings leavings_of(const std::vector<Record>& records) {
  JobLeavings leavings;
  const JobEnded* end = nullptr;
  for (const Record& record : records) {
    for (const NodeId& node : nodes_given(record)) leavings.nodes.insert(node);
    if (const auto* ended = record_as<JobEnded>(record)) end = ended;
  }
  if (records.empty()) return leavings;
  const bool is_completed = end && end->state == JobEndState::completed;
  leavings.outputs_too = is_completed && !has_left_outputs(records);
  return leavings;
}

bool is_over(const State& state, const Journal& journal, const NodeId& node, const JobId& job,
             AttemptId attempt) {
  if (attempt.value < 0 || still_stops(state, node, job, attempt)) return false;
  if (const Job* live = find_job(state, job)) {
    const Attempt* active = active_attempt(*live);
    if (active != nullptr && active->id == attempt) return has_left(*active, node);
    return attempt.value < live->next_attempt;
  }
  const auto row = journal.job(job);
  return row && *row && (*row)->ended_at && attempt.value < (*row)->attempts;
}

}  // namespace muster

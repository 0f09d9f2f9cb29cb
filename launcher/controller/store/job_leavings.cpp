#include "launcher/controller/store/job_leavings.h"

#include <algorithm>

#include "scheduler/model/record.h"

namespace muster {

namespace {

void add_nodes(std::set<NodeId>& nodes, const Record& record) {
  if (const auto* placed = record_as<AttemptPlaced>(record)) {
    nodes.insert(placed->nodes.begin(), placed->nodes.end());
    nodes.insert(placed->spares.begin(), placed->spares.end());
  } else if (const auto* replaced = record_as<NodeReplaced>(record)) {
    nodes.insert(replaced->new_node);
  } else if (const auto* added = record_as<SpareAdded>(record)) {
    nodes.insert(added->node);
  } else if (const auto* taken = record_as<NodeTaken>(record)) {
    nodes.insert(taken->node);
  }
}

bool tells_of_left_outputs(const Record& record) {
  if (const auto* ended = record_as<AttemptEnded>(record)) {
    return !ended->cause.left_behind.empty() || !ended->cause.unproven.empty();
  }
  const auto* released = record_as<NodeReleased>(record);
  return released && !released->left_behind.empty();
}

}  // namespace

Error records_removed(const JobId& job) {
  return Error{"job " + job.value + " cannot be resumed: its records were removed (journal in " +
               "retention.yml); submit its job file again"};
}

bool has_left_outputs(const std::vector<Record>& records) {
  return std::any_of(records.begin(), records.end(), tells_of_left_outputs);
}

JobLeavings leavings_of(const std::vector<Record>& records) {
  JobLeavings leavings;
  const JobEnded* end = nullptr;
  for (const Record& record : records) {
    add_nodes(leavings.nodes, record);
    if (const auto* ended = record_as<JobEnded>(record)) end = ended;
  }
  if (records.empty()) return leavings;
  const bool is_completed = end && end->state == JobEndState::completed;
  leavings.outputs_too = is_completed && !has_left_outputs(records);
  return leavings;
}

}  // namespace muster

#include "scheduler/attempt/parts.h"

#include <algorithm>

#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

std::string why_not_copied(const Turn& turn, const AttemptNode& node) {
  const std::string& name = node.id.value;
  if (const auto* failed = collection_failure(node)) return failed->error;
  if (!is_source_of_outputs(node)) return name + " has not proven that its ranks are gone";
  const Unlinked* link = unlinked(turn.state, node.id);
  if (link) return link_text(node.id, link->failure);
  return name + " sent nothing for " + duration_text(collect_limit);
}

Milliseconds pause_after(int failures) {
  return std::min(retry_collection_most, retry_collection_first * (1 << std::min(failures - 1, 8)));
}

// Whether the node is asked again, at once or later.
bool tries_again(Turn& turn, const Job& job, const Attempt& attempt, const AttemptNode& node,
                 Time failed_at) {
  if (job.cancel) return false;
  if (turn.moment.reached(failed_at + pause_after(node.collection.failures))) {
    turn.decide(CollectionBegun{job.id, attempt.id, node.id});
  }
  return true;
}

// A job that is done, or goes on, waits for a node longer than one that shall run again.
Time end_of_patience(Turn& turn, const Job& job, const Attempt& attempt, const NodeId& node,
                     const Unlinked& link) {
  const StopBegun* why = why_ending(attempt);
  const bool has_finished = why && why->reason == StopReason::finished;
  const bool runs_again = phase_of<Collecting>(attempt) && !has_finished;
  if (!runs_again && !job.cancel) return link.since + collect_link_limit;
  return link.heard_at + patience_with(turn.state, job, node);
}

Time asked_since(const Attempt& attempt, const AttemptNode& node) {
  return node.departure ? node.departure->at : phase_of<Collecting>(attempt)->since;
}

}  // namespace

bool awaits_outputs(Turn& turn, const Job& job, const Attempt& attempt, const AttemptNode& node) {
  if (!may_deliver(node)) return false;
  if (const auto* failed = collection_failure(node)) {
    return tries_again(turn, job, attempt, node, failed->at);
  }
  if (const Unlinked* link = unlinked(turn.state, node.id)) {
    return !turn.moment.reached(end_of_patience(turn, job, attempt, node.id, *link));
  }
  const Time since = asked_since(attempt, node);
  const auto& seen = std::get<NotCollected>(node.collection.state).seen;
  return !turn.moment.reached(std::max(since, seen.value_or(since)) + collect_limit);
}

std::string left_behind_text(const Turn& turn, const AttemptNode& node) {
  if (!has_started(node) || has_delivered(node)) return "";
  const std::string& directory = node.started->directory;
  const std::string why =
      is_released(node) ? " before it left" : " (" + why_not_copied(turn, node) + ")";
  return "the outputs of " + node.id.value + " were not copied" + why +
         ": what it has of them is still on " + node.id.value + " in outputs/ and logs/ of " +
         (directory.empty() ? "the job's directory" : directory);
}

}  // namespace muster

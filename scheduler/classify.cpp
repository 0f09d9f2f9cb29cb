#include "scheduler/classify.h"

#include <algorithm>

#include "scheduler/limits.h"
#include "scheduler/lookup.h"
#include "scheduler/restart_rules.h"
#include "scheduler/sentences.h"

namespace muster {

namespace {

std::string rank_on_node(const RankExited& exit) {
  return "rank " + std::to_string(exit.rank.value) + " on " + exit.node.value;
}

std::string together_sentence(const std::vector<RankExited>& ranks) {
  std::string names;
  std::vector<std::string> exits;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const bool is_last = i + 1 == ranks.size();
    if (i < static_cast<std::size_t>(nodes_named) || is_last) {
      names += (i == 0 ? "" : is_last ? " and " : ", ") + rank_on_node(ranks[i]);
    }
    exits.push_back("rank " + std::to_string(ranks[i].rank.value) + " " +
                    exit_text(ranks[i].status));
  }
  return names + " failed together: " + list_text(exits);
}

// A node that never answered again, or came back empty, while its ranks had not ended: the other
// ranks' failures follow from it.
const AttemptNode* lost_node(const Attempt& attempt) {
  for (const Rank& rank : attempt.ranks) {
    const AttemptNode& node = attempt.nodes.at(static_cast<std::size_t>(rank.node_index));
    const bool lost =
        node.fenced && node.fenced->proof != FenceProof::never_started && !node.unkillable_since;
    if (lost && !std::holds_alternative<RankDone>(rank.state)) return &node;
  }
  return nullptr;
}

std::string fence_text(const AttemptNode& node) {
  if (node.boot_changed) return node.id.value + " rebooted";
  if (node.agent_changed) return node.id.value + " lost its ranks: its agent started anew";
  return node.id.value + " was lost";
}

bool made_progress(const Attempt& attempt) {
  const std::int64_t base = attempt.resume_from ? attempt.resume_from->step : 0;
  const auto& newest = attempt.newest_checkpoint;
  const bool newer = newest && (!attempt.resume_from || newest->step > base);
  return newer || attempt.last_step.value_or(0) > base;
}

void blame_rank(AttemptCause& cause, const FirstFailure& first) {
  const RankExited& telling = telling_rank(first);
  cause.status = telling.status;
  cause.last_lines = telling.last_lines;
  cause.rules = telling.rules;
  if (const auto& rule = cause.rules.rule) {
    cause.failure_class = rule->failure_class.value_or(cause.failure_class);
  }
  if (first.ranks.size() > 1) return;
  cause.first_rank = telling.rank;
  cause.first_node = telling.node;
}

void blame_failed_rank(AttemptCause& cause, const Attempt& attempt, const FirstFailure& first) {
  cause.failure_class = FailureClass::user;
  if (!first.ranks.empty()) {
    blame_rank(cause, first);
    cause.sentence = failure_sentence(first);
  }
  if (const AttemptNode* lost = lost_node(attempt)) {
    cause.failure_class = FailureClass::infra;
    cause.rules = {};
    cause.first_rank.reset();
    cause.first_node = lost->id;
    cause.sentence = fence_text(*lost) + "; then " + cause.sentence;
  }
}

FailureClass class_of(StopReason reason) {
  switch (reason) {
    case StopReason::node_lost:
    case StopReason::start_failed:
      return FailureClass::infra;
    case StopReason::drained:
      return FailureClass::preempted;
    case StopReason::canceled:
    case StopReason::time_limit:
    case StopReason::rank_failed:
    case StopReason::finished:
      return FailureClass::user;
  }
  return FailureClass::user;
}

}  // namespace

FirstFailure first_failure(const Attempt& attempt) {
  std::vector<RankExited> failed;
  for (const Rank& rank : attempt.ranks) {
    const auto* done = std::get_if<RankDone>(&rank.state);
    if (done && !done->exit.status.ok() && !done->exit.asked_to_stop) failed.push_back(done->exit);
  }
  std::stable_sort(failed.begin(), failed.end(),
                   [](const RankExited& a, const RankExited& b) { return a.at_ms < b.at_ms; });
  const auto later = std::find_if(failed.begin(), failed.end(), [&](const RankExited& exit) {
    return exit.at_ms - failed.front().at_ms >= together_window.count();
  });
  failed.erase(later, failed.end());
  return {failed};
}

std::string failure_sentence(const FirstFailure& failure) {
  if (failure.ranks.empty()) return "";
  const RankExited& first = failure.ranks.front();
  if (failure.ranks.size() > 1) return together_sentence(failure.ranks);
  return rank_on_node(first) + " " + exit_text(first.status);
}

AttemptCause cause_of(const Attempt& attempt, const StopBegun& why) {
  AttemptCause cause;
  cause.reason = why.reason;
  cause.succeeded = why.reason == StopReason::finished;
  cause.failure_class = class_of(why.reason);
  cause.sentence = why.sentence;
  cause.made_progress = made_progress(attempt);
  if (why.reason == StopReason::rank_failed) {
    blame_failed_rank(cause, attempt, first_failure(attempt));
  } else {
    cause.first_node = why.blamed;
  }
  return cause;
}

}  // namespace muster

#include "scheduler/explain/summary.h"

#include <algorithm>

#include "scheduler/apply/apply.h"
#include "scheduler/model/names.h"
#include "scheduler/model/record.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/resume_point.h"

namespace muster {

namespace {

// A program that tells no steps got as far as it saved; absent: that does not say its step either.
std::optional<std::int64_t> step_shown(const std::optional<std::int64_t>& last_step,
                                         const std::optional<CheckpointRef>& newest) {
  if (!last_step || !newest) return last_step;
  const std::int64_t step = std::max(*last_step, newest->step);
  return step > 0 ? std::optional(step) : std::nullopt;
}

class Summarizer {
 public:
  void see(const Record& record) {
    apply(state_, record);
    visit_record(record, [&](const auto& one) { take(record.at, one); });
    follow();
  }

  JobSummary finish() {
    if (const Job* job = find_job(state_, summary_.job)) {
      summary_.state = job_state_name(*job);
      if (job->newest_checkpoint) summary_.checkpoint = job->newest_checkpoint;
    }
    return std::move(summary_);
  }

 private:
  template <class T>
  void take(Time, const T&) {}

  template <class Submission>
  void begin(const Submission& record) {
    summary_.job = record.job;
    summary_.user = record.user;
    summary_.target = record.target.name;
    summary_.nodes.reset();
    if (is_elastic(record.spec)) summary_.nodes = node_range(record.spec);
    summary_.exit_code.reset();
    summary_.ended.reset();
    summary_.reason.clear();
  }
  void take(Time at, const JobSubmitted& record) {
    summary_ = {};
    summary_.submitted = at;
    begin(record);
  }
  void take(Time, const ResumeRequested& record) { begin(record); }
  void take(Time, const JobPending& record) { summary_.reason = record.reason; }

  void take(Time at, const AttemptPlaced& record) {
    summary_.reason.clear();
    AttemptSummary attempt;
    attempt.number = record.attempt;
    attempt.nodes = record.nodes;
    attempt.spares = record.spares;
    attempt.placed = at;
    summary_.attempts.push_back(std::move(attempt));
  }
  void take(Time, const NodeReplaced& record) {
    if (AttemptSummary* attempt = find(record.attempt)) {
      auto& nodes = attempt->nodes;
      std::replace(nodes.begin(), nodes.end(), record.old_node, record.new_node);
      std::erase(attempt->spares, record.new_node);
    }
  }
  void take(Time, const NodeAdded& record) {
    if (AttemptSummary* attempt = find(record.attempt)) std::erase(attempt->spares, record.node);
  }
  void take(Time, const JoinBegun& record) {
    AttemptSummary* attempt = find(record.attempt);
    if (!attempt) return;
    attempt->nodes.push_back(record.node);
    attempt->processes.push_back(record.processes);
  }
  // Later it keeps its place, because its ranks did.
  void take(Time, const NodeReleased& record) {
    AttemptSummary* attempt = find(record.attempt);
    if (attempt && attempt->processes.empty()) std::erase(attempt->nodes, record.node);
  }
  void take(Time, const SpareDropped& record) {
    if (AttemptSummary* attempt = find(record.attempt)) std::erase(attempt->spares, record.node);
  }
  void take(Time, const SpareAdded& record) {
    if (AttemptSummary* attempt = find(record.attempt)) attempt->spares.push_back(record.node);
  }
  void take(Time at, const PlacementAbandoned& record) {
    summary_.reason = record.reason;
    AttemptSummary* attempt = find(record.attempt);
    if (!attempt) return;
    attempt->abandoned = record.reason;
    attempt->ended = at;
  }
  void take(Time, const LaunchBegun& record) {
    AttemptSummary* attempt = find(record.attempt);
    if (!attempt) return;
    attempt->processes = record.processes;
    if (record.resume_from) attempt->resumed_from_step = record.resume_from->known_step();
  }
  void take(Time at, const AttemptEnded& record) {
    AttemptSummary* attempt = find(record.attempt);
    if (!attempt) return;
    attempt->ended = at;
    attempt->cause = record.cause;
    attempt->newest_checkpoint = record.newest_checkpoint;
    attempt->last_step = step_shown(attempt->last_step, record.newest_checkpoint);
    keep_newer(summary_.checkpoint, record.newest_checkpoint);
  }
  void take(Time, const RetryScheduled& record) {
    if (AttemptSummary* attempt = find(record.attempt)) attempt->next = record.rule;
  }
  void take(Time at, const JobEnded& record) {
    summary_.state = word(record.state);
    summary_.exit_code = record.exit_code;
    summary_.reason = record.reason;
    summary_.ended = at;
  }

  // Facts that more than one record makes up are read from the job itself.
  void follow() {
    const Job* job = find_job(state_, summary_.job);
    const Attempt* active = job ? active_attempt(*job) : nullptr;
    AttemptSummary* attempt = active ? find(active->id) : nullptr;
    if (!attempt) return;
    attempt->started = active->running_since;
    attempt->last_step = step_shown(active->last_step, active->newest_checkpoint);
    attempt->newest_checkpoint = active->newest_checkpoint;
    attempt->stall = active->stall;
    attempt->members_epoch = active->members.epoch;
    attempt->members.clear();
    attempt->preparing.clear();
    for (const AttemptNode& node : active->nodes) {
      if (node.membership.is_member) attempt->members.push_back(node.id);
      if (!node.preparing.empty()) {
        attempt->preparing.push_back(node.id.value + ": " + node.preparing);
      }
    }
    if (attempt->last_step) summary_.last_step = attempt->last_step;
    if (!summary_.started) summary_.started = active->running_since;
  }

  AttemptSummary* find(AttemptId number) {
    for (AttemptSummary& attempt : summary_.attempts) {
      if (attempt.number == number) return &attempt;
    }
    return nullptr;
  }

  State state_;
  JobSummary summary_;
};

}  // namespace

JobSummary summarize(const std::vector<Record>& records) {
  Summarizer summarizer;
  for (const Record& record : records) summarizer.see(record);
  return summarizer.finish();
}

}  // namespace muster

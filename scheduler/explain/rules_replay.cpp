#include "scheduler/explain/rules_replay.h"

#include "scheduler/apply/apply.h"
#include "scheduler/failure/classify.h"
#include "scheduler/failure/first_failure.h"
#include "scheduler/restart/policy.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

std::string outcome_of(const Decision& decision, Time at) {
  if (const auto* ended = std::get_if<JobEnded>(&decision)) {
    return "ended with " + std::to_string(ended->exit_code);
  }
  const auto* retry = std::get_if<RetryScheduled>(&decision);
  if (!retry) return "";
  std::string text =
      retry->reschedule ? "restarted with replacement" : "restarted on the same nodes";
  for (const NodeId& node : retry->avoid) {
    text += (retry->exclude ? ", never again on " : ", not on ") + node.value;
  }
  return text + " after " + duration_text(retry->at - at);
}

std::string reason_of(const Decision& decision) {
  if (const auto* ended = std::get_if<JobEnded>(&decision)) return ended->reason;
  if (const auto* retry = std::get_if<RetryScheduled>(&decision)) return retry->rule;
  return "";
}

class PolicyReplayer {
 public:
  explicit PolicyReplayer(const OtherPolicy& policy) : policy_(policy) {}

  void see(Record record) {
    at_ = record.at;
    visit_record(record, [&](auto& one) { change(one); });
    apply(state_, record);
    const auto* decision = std::get_if<Decision>(&record.what);
    if (!decision) return;
    if (const auto* ended = std::get_if<AttemptEnded>(decision)) return note(*ended);
    const auto* retry = std::get_if<RetryScheduled>(decision);
    if (retry && !is_latest(retry->attempt)) return;
    if (retry || std::holds_alternative<JobEnded>(*decision)) {
      compare(outcome_of(*decision, ended_at_));
    }
  }

  std::vector<PolicyStep> take() { return std::move(steps_); }

 private:
  template <class T>
  void change(T&) {}
  void change(JobSubmitted& record) { policy_.change(record.spec.muster); }
  void change(ResumeRequested& record) { policy_.change(record.spec.muster); }
  void change(RankExited& record) {
    const Job* job = find_job(state_, record.job);
    record.rules = {};
    if (!job || !counts_as_failure(record)) return;
    record.rules = policy_.judge(job->spec.muster, record);
  }
  void change(AttemptEnded& record) {
    const Job* job = find_job(state_, record.job);
    const Attempt* attempt = job ? active_attempt(*job) : nullptr;
    const StopBegun* why = attempt ? why_ending(*attempt) : nullptr;
    if (!why) return;
    AttemptCause cause = cause_of(*job, *attempt, *why);
    cause.left_behind = record.cause.left_behind;
    cause.unproven = record.cause.unproven;
    record.cause = std::move(cause);
  }

  void note(const AttemptEnded& record) {
    const Job* job = find_job(state_, record.job);
    const bool by_rank = record.cause.reason == StopReason::rank_failed || record.cause.first_rank;
    if (!job || job->past.empty() || !by_rank) return;
    const Decision proposed = after_attempt(*job);
    PolicyStep step{record.job, record.attempt, at_, record.cause, "", "", "", false, false};
    step.proposed = outcome_of(proposed, at_);
    step.why = reason_of(proposed);
    step.hypothetical = !steps_.empty() && (steps_.back().differs || steps_.back().hypothetical);
    steps_.push_back(std::move(step));
    ended_at_ = at_;
  }
  bool is_latest(AttemptId attempt) const {
    return !steps_.empty() && steps_.back().attempt == attempt;
  }
  void compare(const std::string& recorded) {
    if (steps_.empty() || !steps_.back().recorded.empty()) return;
    steps_.back().recorded = recorded;
    steps_.back().differs = recorded != steps_.back().proposed;
  }

  const OtherPolicy& policy_;
  State state_;
  Time at_;
  Time ended_at_;
  std::vector<PolicyStep> steps_;
};

}  // namespace

std::vector<PolicyStep> replay_policy(const std::vector<Record>& records,
                                      const OtherPolicy& policy) {
  PolicyReplayer replayer(policy);
  for (const Record& record : records) replayer.see(record);
  return replayer.take();
}

}  // namespace muster

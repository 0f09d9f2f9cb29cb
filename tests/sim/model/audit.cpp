#include "tests/sim/model/audit.h"

#include <algorithm>

#include "scheduler/apply/apply.h"
#include "scheduler/model/record.h"
#include "scheduler/node/status.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/rank_map.h"

namespace muster {

namespace {

int retries_within(const std::vector<std::pair<Time, bool>>& retries, bool reschedule,
                   Seconds interval) {
  const Time begin = retries.back().first - interval;
  return static_cast<int>(std::count_if(retries.begin(), retries.end(), [&](const auto& retry) {
    return retry.second == reschedule && retry.first > begin;
  }));
}

}  // namespace

void RecordAudit::see(const State& before, const Record& record) {
  const JobId* job = job_of(record);
  if (job && std::holds_alternative<Decision>(record.what)) {
    const auto known = jobs_.find(*job);
    if (known == jobs_.end() || known->second.ended) {
      fail(*job, std::string("I9: ") + kind_of(record) + " for a job that is not there");
    }
  }
  visit_record(record, [&](const auto& one) { check(before, record.at, one); });
}

void RecordAudit::check(const State&, Time, const JobSubmitted& record) {
  History& history = jobs_[record.job];
  if (history.ended) history = History{};
  history.ended = false;
}

void RecordAudit::check(const State&, Time, const ResumeRequested& record) {
  History& history = jobs_[record.job];
  if (!history.ended) return;
  history.ended = false;
  history.resumed_step.reset();
  history.retries.clear();
  if (record.newest_checkpoint) history.sealed_steps.insert(record.newest_checkpoint->step);
}

void RecordAudit::see_sealed(const JobId& job, const std::optional<CheckpointRef>& checkpoint) {
  if (checkpoint) jobs_[job].sealed_steps.insert(checkpoint->step);
}

void RecordAudit::check(const State&, Time, const NodeChecked& record) {
  see_sealed(record.job, record.newest_checkpoint);
  see_sealed(record.job, record.newest_certified);
}

void RecordAudit::check(const State&, Time, const ProgressSeen& record) {
  see_sealed(record.job, record.checkpoint);
}

void RecordAudit::check(const State&, Time, const NodeClean& record) {
  see_sealed(record.job, record.newest_checkpoint);
  see_sealed(record.job, record.newest_certified);
  if (record.unkillable.empty()) quieten(record.job, record.attempt, record.node);
}

void RecordAudit::check(const State&, Time, const NodeFenced& record) {
  if (record.proof != FenceProof::none) quieten(record.job, record.attempt, record.node);
}

void RecordAudit::check(const State& before, Time at, const AttemptPlaced& record) {
  History& history = jobs_[record.job];
  if (record.attempt <= history.newest) {
    fail(record.job, "I2: attempt " + std::to_string(record.attempt.value) + " is used again");
  }
  history.newest = record.attempt;
  std::set<NodeId> nodes;
  for (const auto* held : {&record.nodes, &record.spares}) {
    for (const NodeId& node : *held) {
      check_free(before, at, record.job, node);
      if (!nodes.insert(node).second) fail(record.job, "I1: " + node.value + " is placed twice");
    }
  }
}

// By a spare of its own, or by a node that is free.
void RecordAudit::check(const State& before, Time at, const NodeReplaced& record) {
  const Job* job = find_job(before, record.job);
  const Attempt* attempt = job ? active_attempt(*job) : nullptr;
  if (!attempt || !find_spare(*attempt, record.new_node)) {
    return check_free(before, at, record.job, record.new_node);
  }
  check_usable(before, at, record.job, record.new_node);
}

void RecordAudit::check(const State& before, Time at, const SpareAdded& record) {
  check_free(before, at, record.job, record.node);
}

void RecordAudit::check(const State& before, Time at, const LaunchBegun& record) {
  History& history = jobs_[record.job];
  for (const Launched& earlier : history.launched) {
    for (const NodeId& node : earlier.loud) {
      fail(record.job, "I2: attempt " + std::to_string(record.attempt.value) +
                           " starts while attempt " + std::to_string(earlier.attempt.value) +
                           " may still run on " + node.value);
    }
  }
  check_resume_point(before, history, record);
  const Job* job = find_job(before, record.job);
  const Attempt* attempt = job ? active_attempt(*job) : nullptr;
  if (!attempt) return fail(record.job, "I9: a launch without an attempt");
  Launched launched{record.attempt, {}};
  for (const AttemptNode& node : attempt->nodes) {
    launched.loud.insert(node.id);
    check_passed(record.job, node);
    check_usable(before, at, record.job, node.id);
    const LinkUp* agent = linked_agent(before, node.id);
    const auto shortage = agent ? gpu_shortage(job->spec, *agent) : std::nullopt;
    if (shortage) fail(record.job, "I5: " + node.id.value + " " + *shortage);
  }
  if (record.processes != processes_at_launch(before, job->spec, *attempt)) {
    fail(record.job, "I5: the ranks are not as many as the GPUs");
  }
  history.launched.push_back(std::move(launched));
}

void RecordAudit::check_passed(const JobId& job, const AttemptNode& node) {
  const bool has_passed = node.checked && node.checked->failures.empty();
  if (!has_passed) fail(job, "I5: " + node.id.value + " did not pass its checks");
}

void RecordAudit::check_resume_point(const State& before, History& history,
                                     const LaunchBegun& record) {
  if (record.resume_from && record.resume_from->is_foreign()) return;  // the program decides
  const std::int64_t step = record.resume_from ? record.resume_from->step : 0;
  const Job* job = find_job(before, record.job);
  const bool asked = job && (job->resume_step || job->spec.muster.resume_from == ResumeFrom::path);
  if (record.resume_from && !asked && !history.sealed_steps.count(step)) {
    fail(record.job, "I3: step " + std::to_string(step) + " was never seen sealed");
  }
  const bool explained = record.went_back && !record.why.empty();
  if (history.resumed_step && step < *history.resumed_step && !explained) {
    fail(record.job, "I3: goes back from step " + std::to_string(*history.resumed_step) + " to " +
                         std::to_string(step) + " without a reason");
  }
  history.resumed_step = step;
}

void RecordAudit::check(const State& before, Time, const RetryScheduled& record) {
  const Job* job = find_job(before, record.job);
  if (!job || job->past.empty() || !record.charged) return;
  auto& retries = jobs_[record.job].retries;
  retries.emplace_back(job->past.back().ended_at, record.reschedule);
  const RestartSettings& restart = job->spec.muster.restart;
  const RescheduleSettings& reschedule = job->spec.muster.reschedule;
  if (record.reschedule && reschedule.unlimited) return;
  const int budget = record.reschedule ? reschedule.attempts : restart.attempts;
  const Seconds interval = record.reschedule ? reschedule.interval : restart.interval;
  if (retries_within(retries, record.reschedule, interval) > budget) {
    fail(record.job, std::string("I4: more than ") + std::to_string(budget) +
                         (record.reschedule ? " reschedules" : " restarts"));
  }
}

void RecordAudit::check(const State&, Time, const JobEnded& record) {
  jobs_[record.job].ended = true;
}

void RecordAudit::check_usable(const State& before, Time at, const JobId& job, const NodeId& id) {
  Moment moment(at);
  if (const auto why = refusal_of(find_node(before, id), moment)) fail(job, "I5: " + *why);
}

void RecordAudit::check_free(const State& before, Time at, const JobId& job, const NodeId& id) {
  check_usable(before, at, job, id);
  const Node* node = find_node(before, id);
  if (node && node->owner) {
    fail(job, "I1: " + id.value + " already belongs to " + node->owner->value);
  }
}

void RecordAudit::quieten(const JobId& job, AttemptId attempt, const NodeId& node) {
  for (Launched& launched : jobs_[job].launched) {
    if (launched.attempt == attempt) launched.loud.erase(node);
  }
}

void RecordAudit::fail(const JobId& job, const std::string& what) {
  violations_.push_back(job.value + ": " + what);
}

std::vector<std::string> violations(const std::vector<Record>& journal) {
  State state;
  RecordAudit audit;
  for (const Record& record : journal) {
    audit.see(state, record);
    apply(state, record);
  }
  return audit.violations();
}

}  // namespace muster

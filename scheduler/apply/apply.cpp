#include "scheduler/apply/apply.h"

#include <algorithm>

#include "scheduler/apply/parts.h"
#include "scheduler/state/lookup.h"

namespace muster {

namespace {

Job& add_job(State& state, Time at, const JobId& id, const JobSpec& spec,
             const ComputeTarget& target, const std::string& user) {
  Job job;
  job.id = id;
  job.order = state.next_order++;
  job.submitted_at = at;
  job.spec = spec;
  job.target = target;
  job.user = user;
  for (const NodeAddress& node : target.nodes) node_at(state, node.id);
  return state.jobs.insert_or_assign(id, std::move(job)).first->second;
}

}  // namespace

void apply(State& state, const Record& record) {
  visit_record(record, [&](const auto& what) { apply_one(state, record.at, what); });
}

void apply_one(State& state, Time at, const JobSubmitted& record) {
  if (find_job(state, record.job)) return;
  add_job(state, at, record.job, record.spec, record.target, record.user);
}

void apply_one(State& state, Time, const CancelRequested& record) {
  Job* job = find_job(state, record.job);
  if (!job) return;
  if (!job->cancel) {
    job->cancel = record;
    return;
  }
  const Milliseconds granted = job->cancel->grace.value_or(job->spec.muster.stop.grace);
  job->cancel->grace = std::min(granted, record.grace.value_or(Milliseconds{0}));
}

void apply_one(State& state, Time at, const ResumeRequested& record) {
  if (find_job(state, record.job) || record.target.nodes.empty()) return;
  Job& job = add_job(state, at, record.job, record.spec, record.target, record.user);
  job.next_attempt = record.next_attempt;
  job.newest_checkpoint = record.newest_checkpoint;
  job.forks = record.forks;
  job.resume_step = record.from_step;
  job.certified_because = record.certified_because;
  job.first_launch = record.first_launch;
}

void apply_one(State& state, Time at, const JobPending& record) {
  Job* job = find_job(state, record.job);
  if (!job || active_attempt(*job) || is_undecided(*job)) return;
  job->phase = Queued{record.reason, std::nullopt};
  // From here it waits for others to finish, not for nodes to recover.
  if (job->waiting_since) job->waited_before += at - *job->waiting_since;
  job->waiting_since.reset();
  job->abandoned = 0;
}

void apply_one(State& state, Time, const RetryScheduled& record) {
  Job* job = find_job(state, record.job);
  if (!job || !is_undecided(*job) || job->past.back().id != record.attempt) return;
  job->past.back().reschedule = record.reschedule;
  job->past.back().charged = record.charged;
  job->avoid = record.avoid;
  if (record.exclude) job->excluded.insert(record.avoid.begin(), record.avoid.end());
  job->phase = Backoff{record};
}

void apply_one(State& state, Time, const JobEnded& record) {
  const Job* job = find_job(state, record.job);
  if (job && !active_attempt(*job)) state.jobs.erase(record.job);
}

}  // namespace muster

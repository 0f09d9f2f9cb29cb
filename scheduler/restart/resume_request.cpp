#include "scheduler/restart/resume_request.h"

#include <algorithm>

#include "scheduler/state/resume_point.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

template <class Submission>
void take_submission(ResumeRequested& request, const Submission& record) {
  request.job = record.job;
  request.spec = record.spec;
  request.target = record.target;
  request.user = record.user;
}

void take_launch(ResumeRequested& request, const LaunchBegun& launch) {
  // Whatever was newer is another history.
  request.newest_checkpoint = launch.resume_from;
  add_fork(request.forks, epoch_of(launch.attempt), base_step(launch.resume_from));
  request.certified_because.reset();
}

void take(ResumeRequested& request, const Record& record) {
  if (const auto* submitted = record_as<JobSubmitted>(record)) {
    take_submission(request, *submitted);
    request.next_attempt = 0;
    request.newest_checkpoint.reset();
    request.forks.clear();
    request.certified_because.reset();
    request.first_launch.reset();
  } else if (const auto* resumed = record_as<ResumeRequested>(record)) {
    take_submission(request, *resumed);
  } else if (const auto* placed = record_as<AttemptPlaced>(record)) {
    request.next_attempt = std::max(request.next_attempt, placed->attempt.value + 1);
  } else if (const auto* launch = record_as<LaunchBegun>(record)) {
    if (!request.first_launch) request.first_launch = record.at;
    take_launch(request, *launch);
  } else if (const auto* ended = record_as<AttemptEnded>(record)) {
    keep_newer(request.newest_checkpoint, ended->newest_checkpoint);
    if (casts_doubt(ended->cause)) request.certified_because = doubt_text(ended->cause);
  }
}

const JobEnded* end_of(const std::vector<Record>& records) {
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (record_as<JobSubmitted>(*record) || record_as<ResumeRequested>(*record)) return nullptr;
    if (const auto* ended = record_as<JobEnded>(*record)) return ended;
  }
  return nullptr;
}

}  // namespace

Result<ResumeRequested> resume_request(const std::vector<Record>& records,
                                       std::optional<std::int64_t> from_step, bool from_certified) {
  ResumeRequested request;
  for (const Record& record : records) take(request, record);
  if (request.job.value.empty()) return Error{"there is no such job to resume"};
  const std::string name = "job " + request.job.value;
  const JobEnded* ended = end_of(records);
  if (!ended) return Error{name + " has not ended: it continues by itself"};
  if (ended->state == JobEndState::completed && !from_step && !from_certified) {
    return Error{name + " is completed; name a step to go back to with --from"};
  }
  const auto& newest = request.newest_checkpoint;
  if (from_certified && newest && newest->is_foreign()) {
    return Error{"no checkpoint of " + name + " is certified: they are another program's (" +
                 newest->kind + "); name a step with --from"};
  }
  request.from_step = from_step;
  if (from_step) request.certified_because.reset();
  if (from_certified) request.certified_because = "it was requested";
  return request;
}

}  // namespace muster

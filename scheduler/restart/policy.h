// What follows when an attempt has ended: another one, when, and charged to which budget, or the
// end of the job and its exit code. Classes and defaults as in the job file's failure-class table.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/model/record.h"
#include "scheduler/model/result.h"
#include "scheduler/state/state.h"

namespace muster {

// RetryScheduled or JobEnded, for a job whose latest attempt (`past.back()`) is over.
Decision after_attempt(const Job& job);

// The attempt must not go on, even if it could without what failed: a rule stops the job for such
// a failure, or a rank asked not to be started again.
bool asks_to_stop(const Job& job, const AttemptCause& cause);

// Backoff before the n-th retry in a row without progress (n from 1), without jitter.
Milliseconds retry_delay(const RestartSettings& settings, int n);

// +-20 %, the same for the same job and attempt, so that jobs that failed together do not return
// together.
Milliseconds with_jitter(Milliseconds delay, const JobId& job, AttemptId attempt);

// `muster resume JOB`: what a finished job's records say about going on with it.

// `records`: everything journaled about the job. Fails for a job that has not ended, and for one
// that ended well unless it is said where to go back to. After an end that casts doubt on what was
// saved, only a certified checkpoint will do, also when none was asked for.
Result<ResumeRequested> resume_request(const std::vector<Record>& records,
                                       std::optional<std::int64_t> from_step,
                                       bool from_certified = false);

}  // namespace muster

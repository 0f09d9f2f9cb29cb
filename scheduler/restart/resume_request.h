// `muster resume JOB`: what a finished job's records say about going on with it.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/model/record.h"
#include "scheduler/model/result.h"

namespace muster {

// `records`: everything journaled about the job. Fails for a job that has not ended, and for one
// that ended well unless it is said where to go back to. After an end that casts doubt on what was
// saved, only a certified checkpoint will do, also when none was asked for.
Result<ResumeRequested> resume_request(const std::vector<Record>& records,
                                       std::optional<std::int64_t> from_step,
                                       bool from_certified = false);

}  // namespace muster

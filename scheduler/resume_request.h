// `muster resume JOB`: what a finished job's records say about going on with it.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/model/record.h"
#include "scheduler/model/result.h"

namespace muster {

// `records`: everything journaled about the job. Fails for a job that has not ended, and for one
// that ended well unless a step to go back to is named.
Result<ResumeRequested> resume_request(const std::vector<Record>& records,
                                       std::optional<std::int64_t> from_step);

}  // namespace muster

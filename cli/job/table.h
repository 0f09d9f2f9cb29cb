// Jobs as lines of a table.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/common_options.h"
#include "launcher/controller/store/store.h"
#include "scheduler/explain/summary.h"

namespace muster {

// How long its attempts ran, the pauses between them left out.
Milliseconds running_time(const JobSummary& job, Time now);

// As wide as the terminal. Of jobs that were restarted the journal is read.
std::string job_table_text(const Store& store, const std::vector<JobRow>& rows,
                           const CommonOptions& common);

}  // namespace muster

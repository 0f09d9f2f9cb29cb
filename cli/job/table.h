// Jobs as lines of a table.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/common_options.h"
#include "launcher/controller/store/journal.h"
#include "launcher/controller/store/store.h"
#include "scheduler/explain/summary.h"

namespace muster {

// How long its attempts ran, the pauses between them left out.
Milliseconds running_time(const JobSummary& job, Time now);

// As wide as the terminal. Of jobs that were restarted the journal is read.
std::string job_table_text(const Store& store, const std::vector<JobRow>& rows,
                           const CommonOptions& common);

// Empty where there is none.
std::string number_cell(const std::optional<std::int64_t>& number);

// It goes on while nodes come and go.
bool is_elastic_row(const JobRow& row);

// Of an elastic job: "2-4 nodes, 3 now"; without the last part when it has none.
std::string node_range_text(const JobRow& row);
// In a table, of any job: "2-4, 3 now", "3", nothing.
std::string nodes_cell(const JobRow& row);

}  // namespace muster

// Jobs as lines of a table.
#pragma once

#include <vector>

#include "cli/common_options.h"
#include "launcher/controller/store.h"

namespace muster {

void print_job_table(const std::vector<JobRow>& rows, const CommonOptions& common);

}  // namespace muster

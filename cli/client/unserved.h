// Unfinished jobs and their controller: a list that shows a job as running tells whether anybody
// looks after it, and sees to it that somebody does.
#pragma once

#include <vector>

#include "cli/terminal/common_options.h"
#include "launcher/controller/store/home.h"
#include "launcher/controller/store/store.h"

namespace muster {

// Starts a controller where one served these jobs and none does, and says since when none did. A
// copy of a state directory, which no controller ever served, is only read.
void serve_unfinished(const Home& home, const Store& store, const std::vector<JobRow>& rows,
                      const CommonOptions& common);

}  // namespace muster

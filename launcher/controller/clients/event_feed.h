// Tells followers of a job what the journal has just learned: its new state, in words, and its end.
#pragma once

#include <vector>

#include "launcher/controller/clients/watchers.h"
#include "launcher/controller/store/job_rows.h"
#include "scheduler/state/state.h"

namespace muster {

void announce(const std::vector<Record>& records, const State& state, const JobRows& rows,
              Watchers& watchers);

}  // namespace muster

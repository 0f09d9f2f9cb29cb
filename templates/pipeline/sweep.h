// Sweep jobs: base keys, a search space, an objective and the trial that is run for each point.
#pragma once

#include "templates/job/reading.h"

namespace muster {

// Checks the whole file; what a trial would be is left in `spec`.
void read_sweep_job(const Value& root, Reading& reading, JobSpec& spec);

// The keys of a sweep in a file that is also something else (a pipeline step). `base` has the base
// keys already taken.
void read_sweep_keys(MapReader& base, Reading& reading, JobSpec& spec);

}  // namespace muster

// Sweep jobs: base keys, a search space, an objective and the trial that is run for each point.
#pragma once

#include <set>
#include <string>

#include "scheduler/model/job_spec.h"
#include "templates/job/reading.h"
#include "templates/yaml/value.h"

namespace muster {

// Checks the whole file; what a trial would be is left in `spec`.
void read_sweep_job(const Value& root, Reading& reading, JobSpec& spec);

// The keys of a sweep in a file that is also something else (a pipeline step). `base` has the base
// keys already taken.
void read_sweep_keys(MapReader& base, Reading& reading, JobSpec& spec);

// `search_space` and `early_termination` of a sweep: the table of distributions and policies with
// their keys.

// Checks every parameter; their names, for `${{search_space.x}}`.
std::set<std::string> read_search_space(const Value& value);

void read_early_termination(const Value& value);

}  // namespace muster

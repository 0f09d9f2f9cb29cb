// What is said beforehand of the measuring that a job's gate does (health.start, health.failure).
#pragma once

#include <string>
#include <vector>

#include "scheduler/model/compute.h"
#include "templates/parse_file.h"

namespace muster {

// What `start: full` costs on this target, and where `full` that a job asks for adds nothing.
std::vector<Finding> gate_findings(const JobFile& job, const ComputeTarget& target);

// What comes between an attempt that failed and the next; empty: nothing.
std::string measured_after_failure(const JobSpec& spec, const ComputeTarget& target);

}  // namespace muster

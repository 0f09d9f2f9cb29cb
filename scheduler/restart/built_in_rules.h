// The failures that every site meets, as rules: what a rank says or how it dies, whose fault that
// usually is, what to do, and one sentence of advice. Asked after the job's and the site's rules.
#pragma once

#include <vector>

#include "scheduler/model/job_spec.h"

namespace muster {

const std::vector<RestartRule>& built_in_rules();

}  // namespace muster

// Who makes room for a job of higher priority: preemptible jobs of lower priority, and only when
// that lets the job start.
#pragma once

#include <vector>

#include "scheduler/placement/candidates.h"

namespace muster {

// `missing`: how many of the busy nodes among `nodes` the job still needs. Stops what has to be
// stopped; nothing when enough of them come free already, or never would.
void make_room(Turn& turn, const Job& job, const std::vector<Candidate>& nodes,
               std::size_t missing);

}  // namespace muster

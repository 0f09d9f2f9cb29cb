// Spares: nodes that a job holds ready, checked and given its files, to take the place of one that
// is lost, drained or unfit. They are kept while the job runs; too few of them stop nothing.
#pragma once

#include <vector>

#include "scheduler/placement/candidates.h"

namespace muster {

// One could take a node's place at once.
bool has_ready_spare(Turn& turn, const Job& job, const Attempt& attempt);

std::vector<NodeId> ready_spares(Turn& turn, const Job& job, const Attempt& attempt);

// Nodes that this attempt has not found unfit already.
std::vector<Candidate> new_candidates(Turn& turn, const Job& job, const Attempt& attempt);

}  // namespace muster

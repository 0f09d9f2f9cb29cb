// What ended an attempt: which rank or node failed first, of which class the failure is, and the
// sentence that says so. Evidence only; what follows from it is in scheduler/restart/policy.h.
#pragma once

#include <string>

#include "scheduler/state/state.h"

namespace muster {

// What has failed so far of what takes part, in the order of rank, with nobody called the first:
// more reports may be on their way. Empty: no rank failed. With a node: of that one alone, whether
// it takes part or not.
std::string failures_so_far(const Attempt& attempt, std::optional<std::size_t> node_index = {});

// The attempt as a whole, once it is quiet. The rule that fits the exit may change the class.
AttemptCause cause_of(const Job& job, const Attempt& attempt, const StopBegun& why);

// What is wrong with the node that `why` blames, as if the attempt were that node's alone: what an
// elastic attempt continues without is judged like what stops a fixed one.
AttemptCause cause_on_node(const Job& job, const Attempt& attempt, const StopBegun& why);

}  // namespace muster

// What ended an attempt: which rank or node failed first, of which class the failure is, and the
// sentence that says so. Evidence only; what follows from it is in restart_policy.h.
#pragma once

#include <string>

#include "scheduler/model/state.h"

namespace muster {

// What has failed so far, in the order of rank, with nobody called the first: more reports may be
// on their way. Empty: no rank failed.
std::string failures_so_far(const Attempt& attempt);

// The attempt as a whole, once it is quiet. The rule that fits the exit may change the class.
AttemptCause cause_of(const Job& job, const Attempt& attempt, const StopBegun& why);

}  // namespace muster

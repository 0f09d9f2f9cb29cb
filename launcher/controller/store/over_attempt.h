// Which attempts a node may forget. Pure but for the journal, which it reads.
#pragma once

#include "launcher/controller/store/journal.h"
#include "scheduler/state/state.h"

namespace muster {

// The journal knows the attempt and that it has ended, or goes on without the node, and nothing of
// it is owed by the node. False
// for jobs that the journal does not know: another copy of the state directory may own them.
bool is_over(const State& state, const Journal& journal, const NodeId& node, const JobId& job,
             AttemptId attempt);

}  // namespace muster

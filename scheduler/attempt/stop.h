// The proof that nothing of an attempt can run or write on a node any more, where the node cannot
// give it itself.
#pragma once

#include "scheduler/state/turn.h"

namespace muster {

// Decides that the node is fenced once there is a proof, or no more use in waiting for one.
void fence(Turn& turn, const Job& job, const Attempt& attempt, const AttemptNode& node);

Milliseconds longest_grace(const StopBegun& why);

}  // namespace muster

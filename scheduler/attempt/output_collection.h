// Outputs on their way from a node whose ranks are over: at the end of an attempt, or when the node
// has left it before.
#pragma once

#include <string>

#include "scheduler/state/turn.h"

namespace muster {

// It is waited for; asks it again when that is due.
bool awaits_outputs(Turn& turn, const Job& job, const Attempt& attempt, const AttemptNode& node);

// What was not copied, why, and where it is; empty: nothing.
std::string left_behind_text(const Turn& turn, const AttemptNode& node);

}  // namespace muster

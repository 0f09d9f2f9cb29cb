// Nodes of a gathering gang that are not connected: whoever waits is told within seconds which, why
// and what goes on, other nodes are asked meanwhile, and one that answers takes the place of one
// that certainly cannot be reached. A node that only gives no answer may be slow: it keeps its
// place until `link_limit`. Pure.
#pragma once

#include <set>
#include <vector>

#include "scheduler/fitness.h"

namespace muster {

// Those of which it is certain since they were asked: refused, no route, no answer to the end.
std::vector<Unfit> certain_absences(const State& state, const Attempt& attempt);

// Once a node, and not again while the job finds no nodes.
void tell_absences(Turn& turn, const Job& job, const Attempt& attempt);

// Further nodes of the target that are worth a look, because some of the gang do not answer.
std::set<NodeId> asked_besides(const State& state, const Job& job);

}  // namespace muster

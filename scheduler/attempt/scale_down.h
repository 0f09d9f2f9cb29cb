// Who leaves an elastic attempt while the others go on, and what follows until the node is
// nobody's. Members go only when enough others remain; else the attempt is stopped like any other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/state/turn.h"

namespace muster {

// Members that go now. None of a fixed job, or when it has to be stopped instead.
std::vector<NodeLeaves> departures(Turn& turn, const Job& job, const Attempt& attempt);

// Lets them go; true when there were any.
bool let_go(Turn& turn, const Job& job, const Attempt& attempt);

// Why the attempt has to be stopped for a member that cannot stay and cannot be spared, where a
// fixed job has no such reason.
std::optional<StopBegun> unspared(Turn& turn, const Job& job, const Attempt& attempt);

// What is wrong with a node whose ranks may have been started, as the reason to let it go.
std::optional<NodeLeaves> started_trouble(Turn& turn, const Job& job, const Attempt& attempt,
                                          std::size_t node_index);

NodeLeaves leaves_for(const Job& job, const Attempt& attempt, const NodeId& node, StopReason reason,
                      const std::string& sentence);

// Those that go: quiet, outputs copied or given up, released. True while there are any.
bool see_off(Turn& turn, const Job& job, const Attempt& attempt);

}  // namespace muster

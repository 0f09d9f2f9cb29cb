// What is wrong with one node of an attempt: each says how the attempt would be stopped for it. An
// elastic attempt continues without the node instead, when enough others remain (scale_down.h).
#pragma once

#include <optional>

#include "scheduler/state/turn.h"

namespace muster {

// Its host will be taken away; what its ranks can still save, they save before.
std::optional<StopBegun> noticed(Turn& turn, const Job& job, const Attempt& attempt,
                                 const AttemptNode& node);

// Before the launch a drained node is given back at once; later only when its owner says so.
std::optional<StopBegun> drained(Turn& turn, const Job& job, const Attempt& attempt,
                                 const AttemptNode& node);

// A health check says that the job cannot go on there.
std::optional<StopBegun> faulty(const Job& job, const Attempt& attempt, const AttemptNode& node);

// A rank ended, and not well.
std::optional<StopBegun> rank_failed(const Job& job, const Attempt& attempt,
                                     std::size_t node_index);

// An agent that changed took its ranks with it; one that heard nothing for its lease ended them.
std::optional<StopBegun> agent_lost(const Job& job, const Attempt& attempt, std::size_t node_index);

// Out of reach for longer than it is waited for. `is_spared`: its place can be done without, so
// that a run that stands still moves on sooner.
std::optional<StopBegun> unreachable(Turn& turn, const Job& job, const Attempt& attempt,
                                     std::size_t node_index, bool is_spared);

}  // namespace muster

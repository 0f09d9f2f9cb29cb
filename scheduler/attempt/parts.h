// What this folder's files use of each other; no other folder includes this.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/state/turn.h"

namespace muster {

// launch.cpp: what can go wrong when a node gets the job's files and its ports, as the end of a
// sentence that begins with the node's name. `since`: when the files were asked for.
std::optional<std::string> staging_trouble(Turn& turn, const AttemptNode& node, Time since);
// It has answered, and holds fewer than are wanted.
std::optional<std::string> ports_trouble(const AttemptNode& node, int wanted);

// node_failure.cpp: what is wrong with one node of an attempt: each says how the attempt would be
// stopped for it. An elastic attempt continues without the node when enough others remain.

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

// scale_down.cpp

// Members that go now. None of a fixed job, or when it has to be stopped instead.
std::vector<NodeLeaving> departures(Turn& turn, const Job& job, const Attempt& attempt);
// Why the attempt has to be stopped for a member that cannot stay and cannot be spared, where a
// fixed job has no such reason.
std::optional<StopBegun> unspared(Turn& turn, const Job& job, const Attempt& attempt);
// What is wrong with a node whose ranks may have been started, as the reason to let it go.
std::optional<NodeLeaving> started_trouble(Turn& turn, const Job& job, const Attempt& attempt,
                                           std::size_t node_index);
NodeLeaving leaves_for(const Job& job, const Attempt& attempt, const NodeId& node,
                       StopReason reason, const std::string& sentence);

// stop.cpp: decides that a node is fenced once there is a proof that nothing of the attempt can run
// or write there, where the node cannot give it itself, or no more use in waiting for one.
void fence(Turn& turn, const Job& job, const Attempt& attempt, const AttemptNode& node);

// output_collection.cpp: at the end of an attempt, or when the node has left it before.

// It is waited for; asks it again when that is due.
bool awaits_outputs(Turn& turn, const Job& job, const Attempt& attempt, const AttemptNode& node);
// What was not copied, why, and where it is; empty: nothing.
std::string left_behind_text(const Turn& turn, const AttemptNode& node);

}  // namespace muster

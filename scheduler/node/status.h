// Why a node is unavailable: somebody drained it, a health check did, muster resets or reboots
// it, it said that it leaves, or muster set it aside because it broke jobs; and what muster
// remembers of a failure that a node is blamed for.
#pragma once

#include <optional>
#include <string>

#include "scheduler/state/turn.h"

namespace muster {

// A whole sentence, "h02 is drained: fan"; absent: the node may be used. A pointer that is null: a
// node nobody has heard of.
std::optional<std::string> refusal_of(const Node* node, Moment& moment);

// "h02 leaves in 25 s (notice by /run/leave)"
std::string notice_text(const NodeId& node, const LeaveNotice& notice, Time now);

// It said that it leaves, and that still holds: the agent that said so would say that it is over,
// the next one on the same boot would say it again, and a host that nobody hears from is tried
// again after a while.
bool is_leaving(const Node& node, Moment& moment);

bool is_cordoned(const Node& node, Moment& moment);

// The attempt's end speaks against a node: decides what is remembered, and what follows from it.
void remember_failure(Turn& turn, const Job& job, const Attempt& attempt,
                      const AttemptCause& cause);

// The job works elsewhere after it could not be started on a node, or failed there by its own word
// alone: it was the node.
void remember_proven(Turn& turn, const Job& job, const Attempt& attempt);

}  // namespace muster

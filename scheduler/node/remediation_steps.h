// Which step comes next for a node's fault, of those that its target has commands for. Each is
// tried once for a fault as it stands.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/state/turn.h"

namespace muster {

// Of the first job that may get the node and has commands for it.
const ComputeTarget* target_with_commands(const State& state, const NodeId& id);

const std::vector<std::string>& step_words(const RemedyCommands& commands, RemedyStep step);

// For this fault as it stands; one that came again is another. Null: it was not tried.
const RemedyTry* try_of(const Node& node, const NodeFault& fault, RemedyStep step);

// The first that was not tried, whoever answers; nothing: one is done, or all have failed.
std::optional<RemedyStep> untried_step(const Node& node, const NodeFault& fault,
                                       const RemedyCommands& commands);

// That one, if it can be taken now, or a later one that can.
std::optional<RemedyStep> next_step(Turn& turn, const Node& node, const NodeFault& fault,
                                    const RemedyCommands& commands);

// What muster tried on the node within a day.
std::vector<RemedyTry> tries_lately(const Node& node, Time now);

// When what is under way fails, its target has another step for it.
bool is_followed(const Turn& turn, const Node& node);

}  // namespace muster

// Resets and reboots that muster carries out itself, where the target has commands for them: on a
// node that is idle and drained for a fault that asks for it, each step once, few nodes at a time.
// A node that a person drained is left alone. What is called for: scheduler/state/remediation.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/state/turn.h"

namespace muster {

// For every node of which something is under way or called for.
void handle_remedies(Turn& turn);

// It counts as one that is reset or rebooted: until that is over and, when it does not come back,
// until a person sees to it.
bool takes_remedy_room(const Node& node);

// So many nodes of the target may be reset or rebooted at once.
std::size_t remedies_most(const ComputeTarget& target);

// How long its command may take.
Milliseconds command_limit(RemedyStep step);

// "is being reset", "is rebooting"; nothing: neither.
std::optional<std::string> remedy_text(const Node& node);

// "not reset by muster: nothing fits {gpu} of its command, as the fault is of mlx5_0"; nothing:
// what is due for the node's fault can be done, or nobody asked muster to.
std::optional<std::string> remedy_hindrance(const State& state, const Node& node);

// "h03: gpu3 was reset by muster after XID 79 …", and what it says when it begins or fails.
std::string begun_text(const RemedyBegun& begun);
std::string over_text(const RemedyOver& over);

// Which step comes next for a node's fault, of those that its target has commands for. Each is
// tried once for a fault as it stands.

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

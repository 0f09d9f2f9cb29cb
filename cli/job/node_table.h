// Nodes as the controller sees them, as lines of a table and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/document.h"
#include "cli/terminal/table.h"
#include "launcher/controller/store/home.h"
#include "launcher/wire/client_message.h"

namespace muster {

// A target may name many nodes that no job has come to yet, such as the pretend ones of this
// machine.
bool is_worth_showing(const NodeLine& node);

// "no word for 6 s; declared lost at 40 s", of a node that is silent. A spare at hand takes its
// place sooner.
std::string silence_text(const NodeLine& node);

// What a running controller knows; nothing when none runs, or it does not answer soon.
std::optional<std::vector<NodeLine>> ask_running_for_nodes(const Home& home);
// Of these what is worth showing, by name.
std::vector<NodeLine> nodes_if_running(const Home& home);

// Natural order: n2 before n10.
void sort_by_name(std::vector<NodeLine>& nodes);

Table table_of_nodes(const std::vector<NodeLine>& nodes);

// [{name, link, host_name, gpus, job, spare, drained, drain_reason, leaves, set_aside: {reason,
// since, until}, suspicion, evidence: [{job, at, what}], unfit, faults: [{id, check, …}], remedy:
// {what, since}, remedies: [{at, fault, step, failure}], not_remedied: why muster cannot do what is
// due, connect_ms: {phase: milliseconds}}]
Document nodes_document(const std::vector<NodeLine>& nodes);

}  // namespace muster

// Nodes that would get no job now: drained, cordoned, about to leave, or not reachable. As the
// controller knows them, or where none runs as the journal has them; nothing is asked of a node.
#pragma once

#include <map>
#include <string>

#include "launcher/controller/store/home.h"
#include "launcher/wire/client_message.h"
#include "scheduler/model/ids.h"

namespace muster {

// Each with a sentence: "h02 is drained: fan".
using UnavailableNodes = std::map<NodeId, std::string>;

UnavailableNodes unavailable_nodes(const Home& home);

// Why this one would get no job; empty: it would.
std::string why_unavailable(const NodeLine& node);

}  // namespace muster

// When a reset or reboot that goes on is over, and how: by the word of its command, by the node's
// next boot, or because nothing was heard for too long. Silence counts only while this controller
// listens: what happened while none was there, or nobody knew the node's address, is not known.
#pragma once

#include "scheduler/state/turn.h"

namespace muster {

// Of a node with `remedy`.
void conclude_remedy(Turn& turn, const Node& node);

}  // namespace muster

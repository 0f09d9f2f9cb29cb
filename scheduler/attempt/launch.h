// What can go wrong when a node gets the job's files and its ports, as the end of a sentence that
// begins with the node's name.
#pragma once

#include <optional>
#include <string>

#include "scheduler/state/turn.h"

namespace muster {

// `since`: when the files were asked for.
std::optional<std::string> staging_trouble(Turn& turn, const AttemptNode& node, Time since);

// It has answered, and holds fewer than are wanted.
std::optional<std::string> ports_trouble(const AttemptNode& node, int wanted);

}  // namespace muster

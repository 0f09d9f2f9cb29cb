// Whether a tree from another machine may be built: before anything is written.
#pragma once

#include <string>

#include "launcher/wire/agent_message.h"
#include "scheduler/model/result.h"

namespace muster {

// Refuses absolute paths, `..`, names given twice, entries below a link or a file, bad hashes.
Status check_tree(const Tree& tree);

// Two trees with the same digest become the same directory.
std::string tree_digest(const Tree& tree);

}  // namespace muster

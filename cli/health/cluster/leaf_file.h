// A file that says which leaf switch each node is below.
#pragma once

#include <string_view>

#include "health/fabric/leaf_groups.h"

namespace muster {

// Lines "node leaf", `#` begins a comment. The Error names the line.
Result<LeafOfNode> read_leaves(std::string_view text);

}  // namespace muster

// Which leaf switch each node is below: from a file, or from what the fabric says of itself.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "health/fabric/fabric.h"
#include "scheduler/model/result.h"

namespace muster {

using LeafOfNode = std::map<std::string, std::string>;

// Lines "node leaf", `#` begins a comment. The Error names the line.
Result<LeafOfNode> read_leaves(std::string_view text);

// By the names that hosts give their adapters. A host that is below several switches has the group
// of them for its leaf.
Result<LeafOfNode> leaves_in(const Fabric& fabric);

}  // namespace muster

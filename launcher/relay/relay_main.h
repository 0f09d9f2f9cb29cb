// `muster agent relay`: goes on from this node to further ones. Started by the controller over its
// connection to this node, or by another relay; ends with its standard input.
#pragma once

#include <string>

namespace muster {

// Returns the exit code of the process.
int agent_relay(const std::string& home);

}  // namespace muster

// `muster agent relay`: goes on from this node to further ones. Started by the controller over its
// transport, or by another relay; ends with its standard input.
#pragma once

namespace muster {

// Returns the exit code of the process.
int agent_relay();

}  // namespace muster

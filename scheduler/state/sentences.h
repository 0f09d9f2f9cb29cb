// The words that decisions use about nodes, ranks and durations, so that they read alike
// everywhere.
#pragma once

#include <string>
#include <vector>

#include "scheduler/state/state.h"

namespace muster {

std::string signal_name(int signal);               // "SIGKILL", "signal 77"
std::string exit_text(const ExitStatus& status);   // "was killed by SIGKILL", "exited with code 3"
std::string duration_text(Milliseconds duration);  // "5.2 s", "10 min", "1 h 30 min"
std::string count_text(std::size_t n, const std::string& noun);  // "1 node", "2 nodes"

// "a; b; c and 12 more": the first `nodes_named`.
std::string list_text(const std::vector<std::string>& parts);
// "h01", "h01 and h02", "h01, h02 and h03", "h01, h02 and 12 more": as many.
std::string names_text(const std::vector<NodeId>& nodes);

// "h02 cannot be reached: connection refused", from the link's latest failure.
std::string link_text(const NodeId& node, const LinkFailure& failure);

}  // namespace muster

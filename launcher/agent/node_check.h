// CheckNode's answer: the start gate's verdict and the newest checkpoint. May block: run in a
// child.
#pragma once

#include <string>

#include "launcher/wire/agent_message.h"

namespace muster {

CheckDone check_node(const CheckNode& request, const std::string& home,
                     const std::string& path_list, const std::string& checkpoint_directory);

// What Welcome says of the machine.
Welcome describe_node();

}  // namespace muster

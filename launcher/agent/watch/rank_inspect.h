// A close look at the processes of ranks that seem to hang: state, where the kernel holds them,
// what they use in one second; stacks where py-spy or eu-stack is installed and may attach. For a
// child task: takes seconds, may block. Leaves the processes as they are.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "launcher/wire/agent_message.h"

namespace muster {

struct RankProcesses {
  RankId rank;
  std::vector<pid_t> processes;  // the rank's own first
  bool is_suspect = false;       // its stacks are wanted, though that holds it up for milliseconds
};

// `programs`: a PATH.
std::vector<RankLook> inspect_ranks(const std::vector<RankProcesses>& ranks,
                                    const std::string& programs);

}  // namespace muster

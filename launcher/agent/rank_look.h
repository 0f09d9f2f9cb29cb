// A close look at the processes of ranks that seem to hang: state, where the kernel holds them,
// what they use in one second; stacks where a debugger is installed (py-spy, eu-stack, gdb) and may
// attach. For a child task: takes seconds, may block. Leaves the processes as they are.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "launcher/wire/agent_message.h"

namespace muster {

struct RankProcesses {
  RankId rank;
  std::vector<pid_t> processes;  // the rank's own first
};

// `programs`: a PATH. Only the first rank is shown to a debugger: that holds a process up for a
// moment, and the others are there to compare with.
std::vector<RankLook> look_at_ranks(const std::vector<RankProcesses>& ranks,
                                    const std::string& programs);

}  // namespace muster

// A rank is started as `bash -c command`. A shell that runs a single program becomes it; otherwise
// it waits for a child that is the program.
#pragma once

#include <vector>

#include "launcher/agent/node/process_table.h"

namespace muster {

// The direct children of `process` while it is a shell; none once it has become something else.
std::vector<ProcessInfo> children_of_shell(ProcessTable& table, const ProcessInfo& process);

}  // namespace muster

// What a dead agent of this run directory left behind: its processes are killed and confirmed
// stopped before a new agent answers anyone, or by the keeper when nobody starts a new agent.
#pragma once

#include "launcher/agent/node/process_table.h"
#include "launcher/agent/node/run_directory.h"
#include "scheduler/model/result.h"

namespace muster {

// Blocks until no process of an earlier agent of this directory exists; an Error names those that
// survive SIGKILL for too long.
Status end_orphan_processes(ProcessTable& table, const RunDirectory& run);

}  // namespace muster

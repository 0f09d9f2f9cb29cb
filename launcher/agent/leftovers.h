// What a dead agent of this run directory left behind: its processes are killed and proven gone
// before a new agent answers anyone, or by the keeper when nobody starts a new agent.
#pragma once

#include <sys/types.h>

#include "launcher/agent/run_directory.h"
#include "scheduler/model/result.h"

namespace muster {

// Blocks until no process of an earlier agent of this directory exists; an Error names those that
// survive SIGKILL for too long.
Status end_leftovers(const RunDirectory& run);

// Forks the keeper: a process that waits for the agent's end and, when the agent was killed and no
// other took its lock, ends what it left. An agent that ends orderly calls `dismiss_keeper`.
// `lock_fd` is the agent's lock, which the keeper does not share.
Result<Fd> start_keeper(const RunDirectory& run, int lock_fd, pid_t* keeper);
void dismiss_keeper(Fd& line);

}  // namespace muster

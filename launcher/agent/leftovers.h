// What a dead agent of this run directory left behind: its processes are killed and proven gone
// before a new agent answers anyone, or by the keeper when nobody starts a new agent.
#pragma once

#include <sys/types.h>

#include <optional>

#include "launcher/agent/run_directory.h"
#include "scheduler/model/result.h"

namespace muster {

// Blocks until no process of an earlier agent of this directory exists; an Error names those that
// survive SIGKILL for too long.
Status end_leftovers(const RunDirectory& run);

// The process that waits for the agent's end and, when the agent was killed and no other took its
// lock, ends what it left. There is one while there are ranks; one that was killed is replaced.
// Owned by the agent's main function.
class Keeper {
 public:
  explicit Keeper(const RunDirectory& run) : run_(run) {}

  Status ensure();
  // True when it was the keeper that died.
  bool reaped(pid_t pid);
  // The agent ends orderly and leaves nothing.
  void dismiss();
  std::optional<pid_t> pid() const { return pid_; }

 private:
  const RunDirectory& run_;
  std::optional<pid_t> pid_;
  Fd line_;  // its end is the agent's
};

}  // namespace muster

// What a dead agent of this run directory left behind: its processes are killed and proven gone
// before a new agent answers anyone, or by the keeper when nobody starts a new agent. What they
// wrote and no agent has moved is in pipes that the keeper holds until it is in the spools.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "launcher/agent/run_directory.h"
#include "launcher/os/fd.h"
#include "scheduler/model/result.h"

namespace muster {

// Blocks until no process of an earlier agent of this directory exists; an Error names those that
// survive SIGKILL for too long.
Status end_leftovers(const RunDirectory& run);

// The process that waits for the agent's end and, when the agent was killed and no other took its
// lock, ends what it left and moves the last output. There is one while there are ranks; one that
// was killed is replaced. Owned by the agent's main function.
class Keeper {
 public:
  explicit Keeper(const RunDirectory& run) : run_(run) {}

  // Starts one where there is none; it holds the pipes from its first moment.
  Status ensure(const std::vector<int>& pipes);
  // Keeps what is in the ranks' pipes alive beyond the agent, until a pipe's name is gone. From the
  // call on, before the keeper has turned to it.
  void hold(const std::vector<int>& pipes);
  // True when it was the keeper that died.
  bool reaped(pid_t pid);
  // The agent ends orderly and leaves nothing.
  void dismiss();
  std::optional<pid_t> pid() const { return pid_; }

 private:
  const RunDirectory& run_;
  std::optional<pid_t> pid_;
  Fd line_;  // its end is the agent's; a byte with pipes: hold them, without: all is well
};

}  // namespace muster

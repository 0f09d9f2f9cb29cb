// Looks at the node's health that a person asks for: `muster health run` as a process of its own,
// apart from what the agent watches by itself. Where ranks run only what may run beside them is
// done; who looks for more when ranks begin is ended. Owned by Agent, on its thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "launcher/agent/exec_sessions.h"
#include "launcher/agent/rank_environment.h"
#include "launcher/agent/run_directory.h"
#include "launcher/wire/agent_message.h"

namespace muster {

// The arguments of the program, which has the profile on its standard input.
std::vector<std::string> health_look_arguments(const LookAtHealth& request, bool is_busy,
                                               const std::string& state_file);

class HealthLooks {
 public:
  HealthLooks(const RunDirectory& run, ExecSessions& execs) : run_(run), execs_(execs) {}

  void start(const LookAtHealth& request, bool runs_ranks, const Environment& environment);
  void ranks_begin();
  void reaped(pid_t pid);
  const std::set<pid_t>& sessions() const { return sessions_; }  // no process of any attempt

 private:
  const RunDirectory& run_;
  ExecSessions& execs_;
  std::set<pid_t> sessions_;
  std::map<pid_t, std::string> wide_;  // ids of those that ranks must not have beside them
};

}  // namespace muster

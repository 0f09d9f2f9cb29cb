// Looks at the node's health that a person asks for: `muster health run`, `muster health benchmark`
// or probes as processes of their own, apart from what the agent watches by itself. Where ranks run
// only what may run beside them is done; who looks for more when ranks begin is ended, and what
// measures an idle node does so alone. Owned by Agent, on its thread.
//
//   start    beside ranks ─► narrow, else wide
//   measure  beside ranks, another measurement or what does not end ─► refused, else wide
//   wide ─► ended by ranks that begin; a measurement by a job that comes, which waits for its end
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/agent/exec/sessions.h"
#include "launcher/agent/health/claim.h"
#include "launcher/agent/keeper/rank_environment.h"
#include "launcher/agent/node/run_directory.h"
#include "launcher/wire/agent_message.h"

namespace muster {

// The arguments of the program, which has the profile on its standard input.
std::vector<std::string> health_run_arguments(const LookAtHealth& request, bool is_busy,
                                              const std::string& state_file);
std::vector<std::string> benchmark_arguments(const MeasureNode& request,
                                             const std::string& state_file);

class HealthCommand {
 public:
  // `ending`: what was measured before, for whomever. It outlives this.
  HealthCommand(const RunDirectory& run, ExecSessions& execs, EndingSessions& ending)
      : run_(run), execs_(execs), ending_(ending) {}

  void start(const LookAtHealth& request, bool runs_ranks, Environment environment);
  // Not before what was ended is gone, or will not go.
  void measure(const MeasureNode& request, bool runs_ranks, Environment environment);
  void job_comes();  // measurements are ended
  void end_wide();   // what ranks must not have beside them is
  void stop(const std::string& id);
  void reaped(pid_t pid);
  // Twice a second: what was ended and does not end is waited for no longer. Whoever measures next
  // is told so.
  void poll();
  const std::set<pid_t>& sessions() const { return sessions_; }  // no process of any attempt

 private:
  // What ranks must not have beside them.
  struct Wide {
    std::string id;
    bool is_measurement = false;
    std::string token;
    bool is_ended = false;
  };

  // Nothing: it was refused.
  std::optional<pid_t> run(const std::string& id, std::vector<std::string> arguments,
                           Environment environment, const std::string& profile);
  // Empty: nothing.
  std::string blocking_reason(const MeasureNode& request, bool runs_ranks);
  bool is_measuring() const;
  void end(pid_t pid, Wide& wide);

  const RunDirectory& run_;
  ExecSessions& execs_;
  std::set<pid_t> sessions_;
  std::map<pid_t, Wide> wide_;
  EndingSessions& ending_;  // which have the claim until they are gone
  BenchmarkClaim claim_;    // while something measures
};

}  // namespace muster

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
#include "launcher/agent/keeper/rank_environment.h"
#include "launcher/agent/node/run_directory.h"
#include "launcher/os/fd.h"
#include "launcher/wire/agent_message.h"
#include "runtime/protocol/boot_clock.h"

namespace muster {

// Only one agent of a host measures it: two would measure each other. Held as a name in the
// kernel's table of sockets, which is empty again when its holder is gone, however it ended. Any
// user of the host can hold it: who does is told, and is not believed for ever.
class BenchmarkClaim {
 public:
  BenchmarkClaim() = default;
  ~BenchmarkClaim() { give_back(); }
  BenchmarkClaim(const BenchmarkClaim&) = delete;
  BenchmarkClaim& operator=(const BenchmarkClaim&) = delete;

  // False: another one of this host has it. True when it is held already, and when one process has
  // it for longer than any measurement takes (8 h): then it is lost, which is logged.
  bool take(BootTime now = boot_time());
  void give_back();
  // Of the one that take() met: ", by process 17 of user 1000, for 5 min at least". Without a user:
  // the same, or nobody says. Without a time: it was met just now.
  std::string whose() const;
  // By any claim of this process, which measures then.
  static bool is_held_here() { return claims_held_ > 0; }

 private:
  struct Holder {
    pid_t pid = 0;  // 0: it does not say
    std::optional<uid_t> user;
    BootTime since{};
    BootTime asked_at{};
  };
  bool believes(BootTime now);

  inline static int claims_held_ = 0;
  bool is_held_ = false;
  Fd socket_;
  std::optional<Holder> holder_;
};

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
  void end(pid_t pid, Wide& wide);

  const RunDirectory& run_;
  ExecSessions& execs_;
  std::set<pid_t> sessions_;
  std::map<pid_t, Wide> wide_;
  EndingSessions& ending_;  // which have the claim until they are gone
  BenchmarkClaim claim_;    // while something measures
};

}  // namespace muster

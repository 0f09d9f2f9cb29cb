// Commands of the site that reset or reboot this node, asked for by the controller: each once,
// whatever is asked again, in a session of its own that is killed when its time is over. How it
// ended is kept and said again to whoever asks. Owned by Agent, on its thread.
//
//   ask ─► under way ── it ended ─────────────────────────────► told
//             └ too late: its session is killed ─ gone, or 5 s ─┘ ─► what is left lingers
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "launcher/agent/exec/sessions.h"
#include "launcher/agent/keeper/rank_environment.h"
#include "launcher/os/fd.h"
#include "launcher/wire/agent_report.h"
#include "launcher/wire/agent_request.h"
#include "runtime/protocol/boot_clock.h"

namespace muster {

class Remediation {
 public:
  using Tell = std::function<void(const RemedyRun&)>;
  using OnDone = std::function<void(const RunRemedy&)>;

  // `on_done`: the command ended well.
  Remediation(Tell tell, OnDone on_done);

  // It was not asked before, and there is time for it.
  bool is_news(const RunRemedy& request) const;
  // `refusal`: why it must not be begun. What is no news is told as far as it is known.
  void ask(const RunRemedy& request, const std::optional<std::string>& refusal,
           const Environment& environment);
  // Twice a second, or oftener.
  void poll();
  // A dead child of the agent; true: it was a command's.
  bool reaped(pid_t pid, int wait_status);

  // A command is not told of yet: for its limit at most, and some seconds.
  bool is_under_way() const { return !running_.empty(); }
  // That, or something of one that was killed is here yet: it may hang in the driver.
  bool is_running() const { return is_under_way() || !ending_.all().empty(); }
  std::set<pid_t> sessions() const;

 private:
  struct Running {
    RunRemedy request;
    Fd output;
    std::string text;
    BootTime until{};
    std::optional<BootTime> killed_at{};
    std::optional<ExitStatus> died{};  // of a signal: what it had started goes on
  };

  void begin(const RunRemedy& request, const Environment& environment);
  void kill_all_of(pid_t session, Running& running);
  void end_killed(pid_t session);
  void ended(const RunRemedy& request, RemedyRun run);

  Tell tell_;
  OnDone on_done_;
  std::map<std::string, std::optional<RemedyRun>> runs_;  // by id; nothing: it goes on
  std::map<pid_t, Running> running_;                      // by session
  EndingSessions ending_;                                 // whose processes are here yet
};

}  // namespace muster

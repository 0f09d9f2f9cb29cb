// Which processes belong to an attempt, and how they are all ended. A process belongs when it
//   - is in the attempt's control group,
//   - or carries the attempt's token in the environment it was started with,
//   - or writes to an output pipe of the attempt (cleared its environment, lost its agent),
//   - or descends from a process that belongs, or is in a session that one began, whatever token it
//     carries,
//   - or descends from the agent (the agent is a sub-reaper: orphans come back to it) while no
//     other attempt runs, and neither another attempt nor the agent itself began its session.
// Never goes by name, never touches other processes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "launcher/agent/node/process_scan.h"

namespace muster {

struct ProcessMarks {
  pid_t agent = 0;          // which looks for them: it and what it started are told apart from here
  std::set<pid_t> members;  // of the control groups of these attempts
  std::function<bool(const std::string& token)> is_token;  // of these attempts
  std::string socket_path;         // of the agent: the same token may exist below another home
  std::string spool_prefix;        // paths of pipes begin so
  std::set<pid_t> sessions;        // begun by the agent for the attempt
  std::set<pid_t> other_sessions;  // begun by the agent for anything else
  std::set<pid_t> begun_sessions;  // by processes of these attempts that may be dead by now
  bool takes_orphans = true;       // unmarked descendants of the agent: false while another
                                   // attempt runs beside this one
};

// Live processes with the marks; the agent is never among them.
std::vector<ProcessInfo> find_attempt_processes(ProcessTable& table, const ProcessMarks& marks);

// Live processes that `agent` started, itself or through others. While it lives they cannot leave
// it: it is a sub-reaper.
std::vector<ProcessInfo> find_descendants(ProcessTable& table, pid_t agent);

// One round of SIGKILL: all are stopped first, so that none forks away while the others die.
void kill_processes(ProcessTable& table, const std::vector<ProcessInfo>& processes);

// A rank is started as `bash -c command`. A shell that runs a single program becomes it; otherwise
// it waits for a child that is the program.

// The direct children of `process` while it is a shell; none once it has become something else.
std::vector<ProcessInfo> children_of_shell(ProcessTable& table, const ProcessInfo& process);

// Ending an attempt's processes and proving it. Knows processes only through the table and the
// function that it is given; time is an input.
//
//   Idle -> Grace -> Terminating -> Killing -> Proven
//     Grace:        the ranks were signalled and may save; their workers are left alone. It is
//                   extended while they save, up to its limit
//     Terminating:  SIGKILL to the ranks that are left, SIGTERM to everything else, unless that
//                   shall be killed at once
//     Killing:      SIGKILL until no process is found, or the kernel does not let them go
//   kill_now goes to Killing from anywhere.
class AttemptStop {
 public:
  using Clock = std::chrono::steady_clock;
  using Find = std::function<std::vector<ProcessInfo>()>;

  struct Proven {
    std::vector<std::string> unkillable;
  };

  struct Limits {
    std::chrono::milliseconds grace{0};
    std::chrono::milliseconds grace_max{0};  // less than `grace` counts as `grace`
    bool kills = false;  // ranks that are left at its end, which is then all that they are told
  };

  explicit AttemptStop(ProcessTable& table) : table_(table) {}

  // `signalled`: the ranks, already told to stop, or about to end by themselves. Again: the sooner
  // ends count.
  void begin(std::vector<ProcessInfo> signalled, Limits limits, Clock::time_point now);
  // The ranks are saving: they have at least until then, as far as `grace_max` allows.
  void extend(Clock::time_point until);
  void kill_now(Clock::time_point now);
  // Goes as far as it can at `now`.
  void step(Clock::time_point now, const Find& find);

  bool is_killing() const { return std::holds_alternative<Killing>(phase_); }
  bool is_in_grace() const { return std::holds_alternative<Grace>(phase_); }
  bool is_idle() const { return std::holds_alternative<Idle>(phase_); }
  bool is_active() const { return !is_idle() && proven() == nullptr; }
  const Proven* proven() const { return std::get_if<Proven>(&phase_); }

 private:
  struct Idle {};
  struct Grace {
    std::vector<ProcessInfo> signalled;
    Clock::time_point deadline;
    Clock::time_point limit;  // of every extension
    bool kills = false;
  };
  struct Terminating {
    Clock::time_point deadline;
  };
  struct Killing {
    Clock::time_point deadline;
    int empty_scans = 0;
  };

  bool step_once(Clock::time_point now, const Find& find);

  ProcessTable& table_;
  std::variant<Idle, Grace, Terminating, Killing, Proven> phase_;
};

// Kills what `find` finds and waits for the proof; the names of those that survive SIGKILL.
std::vector<std::string> kill_until_gone(ProcessTable& table, const AttemptStop::Find& find);

// The kernel's own list of an attempt's processes: a control group (version 2) that they are born
// into and that their descendants cannot leave by a new session, an emptied environment or a dead
// parent. Made where the agent may make one; where not, the marks above must do.
// Blocking file work, no threads.
class AttemptGroup {
 public:
  // Makes it below this process's own group and notes its place in the directory `spool`, for the
  // agent after this one. Nothing where that is not possible.
  static std::optional<AttemptGroup> make(const std::string& name, const std::string& spool);
  // The one that was noted there.
  static std::optional<AttemptGroup> noted(const std::string& spool);

  const std::string& path() const { return path_; }
  std::set<pid_t> members() const;  // those of groups below it too
  void kill() const;                // all at once, so that none can fork away
  void remove() const;              // when it is empty, with the groups below it

 private:
  explicit AttemptGroup(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

// This process's group in the file system of control groups, from the text of /proc/self/mountinfo
// and /proc/self/cgroup; nothing without version 2.
std::optional<std::string> own_group(const std::string& mounts, const std::string& groups);

}  // namespace muster

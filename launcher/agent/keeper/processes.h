// Which processes belong to an attempt, and how they are all ended. A process belongs when it
//   - is in the attempt's control group,
//   - or carries the attempt's token in the environment it was started with,
//   - or descends from the agent (the agent is a sub-reaper: orphans come back to it) and no other
//     attempt owns it by token or session,
//   - or writes to an output pipe of the attempt (cleared its environment, lost its agent).
// Never goes by name, never touches other processes.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "launcher/agent/node/process_table.h"

namespace muster {

struct ProcessMarks {
  pid_t agent = 0;          // which looks for them: it and what it started are told apart from here
  std::set<pid_t> members;  // of the control groups of these attempts
  std::function<bool(const std::string& token)> is_token;  // of these attempts
  std::string socket_path;         // of the agent: the same token may exist below another home
  std::string spool_prefix;        // paths of pipes begin so
  std::set<pid_t> sessions;        // begun by the agent for the attempt
  std::set<pid_t> other_sessions;  // begun by the agent for anything else
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

}  // namespace muster

// The processes of the machine as the agent deals with them: what it sees, signals, starts and
// reaps. An interface, so that what the agent decides is tested with processes that are only told
// of. On the agent's thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/node/process_scan.h"
#include "launcher/agent/node/spawn.h"
#include "scheduler/model/result.h"

namespace muster {

// By which a process is known to belong to somebody; empty where it cannot be read.
struct ProcessSigns {
  std::string environment;           // it was started with: raw NUL-separated text
  std::vector<std::string> outputs;  // where its stdout and stderr lead
  std::string program;               // the file that it runs
};

class ProcessTable {
 public:
  virtual ~ProcessTable() = default;

  // Every process, the dead ones that nobody has reaped included.
  virtual std::vector<ProcessInfo> scan() = 0;
  virtual std::optional<ProcessInfo> find(pid_t pid) = 0;
  virtual ProcessSigns signs_of(const ProcessInfo& process) = 0;
  // That very process; false when it is gone or may not be signalled.
  virtual bool signal(const ProcessInfo& process, int signal) = 0;
  virtual Result<pid_t> start(const SpawnRequest& request) = 0;
  // A dead child of the caller; 0 or less: there is none.
  virtual pid_t reap(int& wait_status) = 0;

  // That very process exists and is not merely waiting to be reaped.
  bool is_alive(const ProcessInfo& process) {
    const auto now = find(process.pid);
    return now && now->start_ticks == process.start_ticks && !now->is_dead();
  }
};

// This machine's, by /proc and signals.
class HostProcesses final : public ProcessTable {
 public:
  std::vector<ProcessInfo> scan() override;
  std::optional<ProcessInfo> find(pid_t pid) override;
  ProcessSigns signs_of(const ProcessInfo& process) override;
  bool signal(const ProcessInfo& process, int signal) override;
  Result<pid_t> start(const SpawnRequest& request) override;
  pid_t reap(int& wait_status) override;
};

}  // namespace muster

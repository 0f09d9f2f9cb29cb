// The processes of this machine as /proc shows them, and how one of them is signalled without ever
// hitting another that took its number: functions of any thread that keep nothing, and the same as
// an interface, so that what the agent decides is tested with processes that are only told of.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/node/spawn.h"
#include "runtime/protocol/boot_clock.h"
#include "scheduler/model/result.h"

namespace muster {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  char state = '?';
  std::uint64_t start_ticks = 0;  // since boot: with the pid, the identity of a process
  std::uint64_t cpu_ticks = 0;    // used so far, of sysconf(_SC_CLK_TCK) a second
  unsigned flags = 0;             // the kernel's PF_…
  int threads = 0;                // 0: nothing runs any more
  std::string name;               // as the kernel cuts it, 15 bytes
  bool is_of_kernel() const { return (flags & 0x00200000) != 0; }  // PF_KTHREAD
  // A main thread that ended before the others looks like a zombie, and they go on.
  bool is_dead() const { return state == 'X' || (state == 'Z' && threads <= 1); }
};

// Every process, the dead ones that nobody has reaped included.
std::vector<ProcessInfo> scan_processes();

// One process; nothing when it does not exist any more.
std::optional<ProcessInfo> read_process(pid_t pid);

// The environment a process was started with, as raw NUL-separated text; empty when not readable.
std::string read_process_environment(pid_t pid);

// Value of `name` in such a text.
std::optional<std::string> environment_entry(std::string_view block, const std::string& name);

// Signals that very process; false when it is gone or may not be signalled.
bool signal_process(const ProcessInfo& process, int signal);

// SIGKILL for all of a session that the caller began, in whatever groups they are.
void kill_session(pid_t session);

// "4711 (python)": for a person.
std::string describe(const ProcessInfo& process);

// By which a process is known to belong to somebody; empty where it cannot be read.
struct ProcessSigns {
  std::string environment;           // it was started with: raw NUL-separated text
  std::vector<std::string> outputs;  // where its stdout and stderr lead
  std::string program;               // the file that it runs
};

class ProcessTable {
 public:
  virtual ~ProcessTable() = default;

  virtual std::vector<ProcessInfo> scan() = 0;
  virtual std::optional<ProcessInfo> find(pid_t pid) = 0;
  virtual ProcessSigns signs_of(const ProcessInfo& process) = 0;
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
  std::vector<ProcessInfo> scan() override { return scan_processes(); }
  std::optional<ProcessInfo> find(pid_t pid) override { return read_process(pid); }
  ProcessSigns signs_of(const ProcessInfo& process) override;
  bool signal(const ProcessInfo& process, int signal) override {
    return signal_process(process, signal);
  }
  Result<pid_t> start(const SpawnRequest& request) override { return spawn(request); }
  pid_t reap(int& wait_status) override { return ::waitpid(-1, &wait_status, WNOHANG); }
};

// What time it is, for all that the agent decides: an input too, so that tests can let it pass.
// Boot time (boot_clock.h) is for leases, the steady clock for how long something may take.
class AgentClock {
 public:
  virtual ~AgentClock() = default;
  virtual BootTime boot() const = 0;
  virtual std::chrono::steady_clock::time_point steady() const = 0;
};

class HostClock final : public AgentClock {
 public:
  BootTime boot() const override { return boot_time(); }
  std::chrono::steady_clock::time_point steady() const override {
    return std::chrono::steady_clock::now();
  }
};

}  // namespace muster

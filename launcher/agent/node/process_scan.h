// The processes of this machine as /proc shows them, and how one of them is signalled without ever
// hitting another that took its number. Reads the system; any thread; keeps nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

// True when that very process still exists and is not merely waiting to be reaped.
bool is_alive(const ProcessInfo& process);

// A thread of the process that still has its files and memory: the main one until it ends.
pid_t living_thread(const ProcessInfo& process);

// The environment a process was started with, as raw NUL-separated text; empty when not readable.
std::string read_process_environment(pid_t pid);

// Value of `name` in such a text.
std::optional<std::string> environment_entry(const std::string& block, const std::string& name);

// Signals that very process; false when it is gone or may not be signalled.
bool signal_process(const ProcessInfo& process, int signal);

// "4711 (python)": for a person.
std::string describe(const ProcessInfo& process);

}  // namespace muster

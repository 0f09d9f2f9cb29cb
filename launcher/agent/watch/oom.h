// Whether the kernel ended a process for want of memory: what its log says, where that may be read,
// and otherwise what the counters of the agent's own memory cgroup (version 2 or 1) say. The
// parsers are pure; the watch is owned by the agent, on its thread, and never waits.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/os/fd.h"

namespace muster {

// "… Out of memory: Killed process 4711 (python3) total-vm:…": a line of the kernel's log.
struct OomKill {
  pid_t pid = 0;
  std::string sentence;  // from "out of memory" on
};
std::optional<OomKill> oom_kill_of(std::string_view log_line);

// The count in `memory.events` (version 2) or `memory.oom_control` (version 1).
std::optional<std::int64_t> oom_kills_of(std::string_view counters);

// Files that may have that count, the best first, from the text of /proc/self/cgroup. A container
// often sees its own cgroup at the root.
std::vector<std::string> counter_paths(std::string_view self_cgroup, const std::string& root);

class OomWatch {
 public:
  struct Sources {
    std::string cgroups = "/sys/fs/cgroup";
    std::string self_cgroup = "/proc/self/cgroup";
    std::string kernel_log = "/dev/kmsg";
  };

  OomWatch() : OomWatch(Sources{}) {}
  explicit OomWatch(const Sources& sources);

  // About a process that was just reaped; empty: nothing. A count that rose is told once: the
  // kernel's log is what tells one process from another.
  std::string evidence_of(pid_t pid);

 private:
  void read_log();
  std::string count_evidence();

  Fd log_;
  std::map<pid_t, std::string> kills_;
  std::string counter_path_;
  std::string limit_path_;
  std::int64_t kills_seen_ = 0;
  std::int64_t limit_hits_seen_ = 0;
};

}  // namespace muster

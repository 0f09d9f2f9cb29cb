// What the ranks of an attempt on this node do, judged from outside: states and processor time of
// their processes, bytes through their files, the node's network. Owned by the attempt, on the
// agent's thread. Tells only what has changed, so that healthy ranks cost the controller nothing.
//
//   stopped   a process is in state T at two looks in a row; one that is not the rank's own counts
//             only while the rank uses no processor. A debugger's stop (t) is work of a
//             person, or a closer look at one that is stopped, which ends that no sooner.
//   stuck     in state D for ten seconds, and nothing moves
//   moving    a debugger that the rank did not start holds one of its processes, and `process`
//             is the debugger; or 64 KiB/s through its files
//   working   2 % of a core; like moving until ten seconds after
//   quiet     none of these
//
// Cost: one read of /proc/<pid>/stat per process twice a second, the rest every four seconds.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/agent/node/process_scan.h"
#include "launcher/wire/agent_message.h"

namespace muster {

class ActivityWatch {
 public:
  using Clock = std::chrono::steady_clock;
  using Moment = Clock::time_point;

  void add(RankId rank, pid_t process, Moment now);
  void remove(RankId rank);
  // `amount`: of anything the rank brings forth; another one than before shows that it works.
  void produced(RankId rank, std::int64_t amount, Moment now);
  void poll(Moment now);
  // To a controller that may not have heard it.
  void report_again();
  // What has changed since it was told; nothing: no news. Job and attempt are the caller's to fill.
  std::optional<RankActivity> news(Moment now);
  std::vector<pid_t> processes_of(RankId rank) const;

 private:
  struct Process {
    std::uint64_t start_ticks = 0;
    std::uint64_t cpu_ticks = 0;
    std::uint64_t io = 0;
    pid_t tracer = 0;
    char state = '?';
    std::string name;
  };
  struct Watched {
    pid_t root = 0;
    std::map<pid_t, Process> processes;
    std::uint64_t window_ticks = 0;  // used since the latest look at the tree
    std::int64_t produced = 0;
    Moment used_at;  // any processor time at all
    Moment working_at;
    Moment moving_at;
    std::optional<Moment> stopped_since;
    std::optional<Moment> stuck_since;
    int stopped_looks = 0;
    std::optional<pid_t> odd;  // the process that is stopped or stuck
    pid_t debugger = 0;        // at two looks at the tree in a row: a closer look takes less
    std::optional<std::pair<Doing, pid_t>> told;
  };

  static void look_at_states(Watched& rank, Moment now);
  static void look_at_tree(Watched& rank, Moment now);
  static void judge_states(Watched& rank, Moment now);
  static RankDoing doing_of(RankId id, const Watched& rank, Moment now);

  std::map<RankId, Watched> ranks_;
  Moment next_look_{};
  Moment next_tree_look_{};
  std::optional<std::uint64_t> network_bytes_;
  std::optional<Moment> network_at_;
  bool reported_network_ = false;
};

// Single facts that change while a process or the node is at work, from /proc and /sys. Any thread.
// What cannot be read counts as nothing.

// The process and its descendants, as far as they were forked by main threads; at most `limit`.
std::vector<pid_t> process_tree(pid_t root, std::size_t limit);

// Who debugs or traces it; 0: nobody.
pid_t tracer_of(pid_t pid);

// What went through its files, pipes and page faults since it was started.
std::uint64_t io_bytes(pid_t pid);

// What went through all network interfaces of the node, InfiniBand ports included. `root`: below it
// are /proc and /sys.
std::uint64_t network_bytes(const std::string& root = "");

// Whether the ranks of an attempt ever met: somebody listens on MASTER_PORT as long as a process
// group of PyTorch lives. Asks the kernel's tables, never the port.

// Of /proc/net/tcp or tcp6, whose lines have "LOCAL:PORT REMOTE:PORT STATE" in hexadecimal digits.
bool has_listener(std::string_view table, int port);

class ListenWatch {
 public:
  using Clock = std::chrono::steady_clock;

  void begin(int port) { port_ = port; }
  void poll(Clock::time_point now);
  // It was looked for during ten seconds or more, and nobody was there.
  bool has_missed() const;

 private:
  int port_ = 0;  // 0: it is not looked for
  int looks_ = 0;
  Clock::time_point next_{};
};

// A close look at the processes of ranks that seem to hang: state, where the kernel holds them,
// what they use in one second; stacks where py-spy or eu-stack is installed and may attach. For a
// child task: takes seconds, may block. Leaves the processes as they are.

struct RankProcesses {
  RankId rank;
  std::vector<pid_t> processes;  // the rank's own first
  bool is_suspect = false;       // its stacks are wanted, though that holds it up for milliseconds
};

// `programs`: a PATH.
std::vector<RankLook> inspect_ranks(const std::vector<RankProcesses>& ranks,
                                    const std::string& programs);

}  // namespace muster

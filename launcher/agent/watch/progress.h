// Files of an attempt's ranks on this node: heartbeat and metrics, read now and then and told to
// the controller when there is something new, and what a rank says of its failure. Owned by the
// attempt; local files only.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/metric_sources/follow.h"
#include "launcher/agent/node/child_tasks.h"
#include "launcher/agent/node/peer.h"
#include "launcher/os/fd.h"

namespace muster {

class ProgressWatch {
 public:
  void add(RankId rank, std::string heartbeat, std::string metrics);
  std::optional<std::int64_t> step_of(RankId rank) const;  // the last one that was read
  // A step that the rank's program told others. It counts if there is no heartbeat and the step has
  // risen often, within a minute each: what is told every ten is no sign of life. Or as the last.
  using Moment = std::chrono::steady_clock::time_point;
  void read_off(RankId rank, std::int64_t step, Moment now, bool is_over);
  // Nobody writes its heartbeat any more: the next look takes it as it is.
  void rank_ended(RankId rank);
  // To a controller that may not have heard them: the steps as they are now.
  void report_again();
  // Sends Progress for each rank that has news. Without a line nothing is read, so nothing is lost.
  void poll(const JobId& job, AttemptId attempt, ControllerLine& line);

 private:
  struct Watched {
    std::string heartbeat;
    std::string metrics;
    std::string text;  // the heartbeat as it was found last
    std::optional<std::int64_t> step;
    std::optional<std::int64_t> told;
    std::int64_t metrics_offset = 0;
    std::optional<std::int64_t> read_off = {};
    Moment rose_at = {};
    int rises = 0;
  };

  std::map<RankId, Watched> ranks_;
};

// Whole lines of the file from `offset` on, which moves behind them; at most `limit_bytes` are
// read.
std::vector<std::string> read_new_lines(const std::string& path, std::int64_t& offset,
                                        std::size_t limit_bytes);

// What a program says of its failure, as PyTorch's `@record` writes it to TORCHELASTIC_ERROR_FILE:
// {"message": {"message": "ValueError: …", …}}, or a text in place of the inner map
// (torch/distributed/elastic/multiprocessing/errors/error_handler.py). The first line that is not
// empty, as UTF-8; empty where there is none or the file is no such file.
std::string error_in(std::string_view text);
std::string read_error_file(const std::string& path);

// When to look at the metrics that an attempt's program on this node writes to files of its own, in
// child tasks. Owned by the attempt, on the agent's thread, and by a child's answer.
//
//   looking every 5 s (at most a fiftieth of the time) ─► ranks ended ─► last look ─► done
class MetricWatch : public std::enable_shared_from_this<MetricWatch> {
 public:
  using Clock = std::chrono::steady_clock;

  MetricWatch(ChildTasks& tasks, MetricPlaces places) : tasks_(tasks), places_(std::move(places)) {}

  // May begin a look. `on_done`: the last one is over.
  void poll(Clock::time_point now, bool are_ranks_over, const std::function<void()>& on_done);
  MetricLook take() { return look_.take(); }
  // And everything taken.
  bool is_done() const { return is_done_ && look_.lines.empty() && look_.notes.empty(); }

 private:
  void add(const Result<std::string>& answer);

  ChildTasks& tasks_;
  MetricPlaces places_;
  MetricLook look_;
  bool is_looking_ = false;
  ChildTasks::TaskId look_id_ = 0;
  int looks_ = 0;
  bool is_done_ = false;
  Clock::time_point began_;
  Clock::time_point next_look_ = Clock::now() + std::chrono::seconds{5};
  std::optional<Clock::time_point> last_began_;
};

// Whether the kernel ended a process for want of memory: what its log says, where that may be read,
// and otherwise what the counters of the agent's own memory cgroup (version 2 or 1) say. The
// parsers are pure; the watch is owned by the agent, on its thread, and never waits.

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

// The newest sealed checkpoint of a running attempt, looked for in child tasks because the
// directory may lie on a file system that hangs, unless it is near: on the agent's own. Owned by
// Agent, one per running attempt.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/node/child_tasks.h"
#include "scheduler/model/record.h"

namespace muster {

class CheckpointWatch {
 public:
  using Clock = std::chrono::steady_clock;
  using Found = std::function<void(const CheckpointRef&)>;  // a newer one than before

  CheckpointWatch(ChildTasks& tasks, std::string directory, bool is_near, Found found);
  void poll(Clock::time_point now);
  const std::optional<CheckpointRef>& newest() const { return facts_->newest; }

 private:
  struct Facts {  // outlives the watch while a child looks
    std::string seen_change;
    std::optional<CheckpointRef> newest;
    bool is_looking = false;
    Found found;

    void take(const std::string& answer);
  };

  ChildTasks& tasks_;
  std::string directory_;
  bool is_near_;
  std::shared_ptr<Facts> facts_;
  std::optional<Clock::time_point> next_look_;  // absent: never asked
};

// Whether checkpoint bytes are being written while an attempt's ranks are given time to save.
// Looked for in child tasks, because the directory may lie on a file system that hangs: then
// nothing grows. Owned by Agent, one per attempt that is being stopped.

// What files below a directory looked like at one moment. Either grows when one of them is written,
// also in place (a file that was allocated whole) and while older ones are removed.
struct WrittenBytes {
  std::int64_t newest_ns = 0;  // latest change of a file's content
  std::int64_t bytes = 0;
  bool is_beyond(const WrittenBytes& before) const {
    return newest_ns > before.newest_ns || bytes > before.bytes;
  }
};

WrittenBytes written_below(const std::string& directory);

class CheckpointGrowth {
 public:
  using Clock = std::chrono::steady_clock;

  CheckpointGrowth(ChildTasks& tasks, std::string directory);
  void poll(Clock::time_point now);
  // Until when the ranks count as saving; absent: nothing has grown.
  std::optional<Clock::time_point> saving_until() const { return facts_->saving_until; }

 private:
  struct Facts {  // outlives the watch while a child looks
    std::optional<WrittenBytes> seen;
    std::optional<Clock::time_point> saving_until;
    Clock::time_point look_began{};
    bool is_looking = false;
    void take(const std::string& answer);
  };

  ChildTasks& tasks_;
  std::string directory_;
  std::shared_ptr<Facts> facts_;
};

// The newest sealed checkpoints below a directory, as the journal names them. Reads files, may
// block on a slow file system: the agent asks from a child process.

struct CheckpointProbe {
  std::optional<CheckpointRef> newest;
  std::optional<CheckpointRef> newest_certified;  // training went on well after it
  std::optional<CheckpointRef> asked;             // of the step asked for, in its newest history
  std::string trouble;  // there may be newer ones that could not be looked at; empty: no trouble
};

CheckpointProbe probe_checkpoints(const std::string& directory,
                                  std::optional<std::int64_t> asked_step = std::nullopt);

}  // namespace muster

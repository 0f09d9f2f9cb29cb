// Whether checkpoint bytes are being written while an attempt's ranks are given time to save.
// Looked for in child tasks, because the directory may lie on a file system that hangs: then
// nothing grows. Owned by Agent, one per attempt that is being stopped.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/node/child_tasks.h"

namespace muster {

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
    void note(const WrittenBytes& now_seen);
  };

  ChildTasks& tasks_;
  std::string directory_;
  std::shared_ptr<Facts> facts_;
};

}  // namespace muster

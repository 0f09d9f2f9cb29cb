// The newest sealed checkpoint of a running attempt, looked for in child tasks because the
// directory may lie on a file system that hangs. Owned by Agent, one per running attempt.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/child_tasks.h"
#include "scheduler/model/record.h"

namespace muster {

class CheckpointWatch {
 public:
  using Clock = std::chrono::steady_clock;
  using Found = std::function<void(const CheckpointRef&)>;  // a newer one than before

  CheckpointWatch(ChildTasks& tasks, std::string directory, Found found);
  void poll(Clock::time_point now);
  const std::optional<CheckpointRef>& newest() const { return facts_->newest; }

 private:
  struct Facts {  // outlives the watch while a child looks
    std::string seen_change;
    std::optional<CheckpointRef> newest;
    bool is_looking = false;
    Found found;
  };

  ChildTasks& tasks_;
  std::string directory_;
  std::shared_ptr<Facts> facts_;
  Clock::time_point next_look_{};
};

}  // namespace muster

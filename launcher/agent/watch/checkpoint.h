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

}  // namespace muster

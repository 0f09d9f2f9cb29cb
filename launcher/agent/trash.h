// What attempts and jobs left in the file system: out of the way at once, removed by a child a
// little later. Owned by the agent's attempts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/agent/node/agent_clock.h"
#include "launcher/agent/node/child_tasks.h"
#include "launcher/agent/node/run_directory.h"

namespace muster {

class Trash {
 public:
  // With what an earlier agent left to be removed.
  Trash(const RunDirectory& run, ChildTasks& tasks, const AgentClock& clock, std::string agent_id);

  // Renamed, so that its name is free.
  void discard(const std::string& path);
  void poll();

 private:
  void wait();

  const RunDirectory& run_;
  ChildTasks& tasks_;
  const AgentClock& clock_;
  std::string agent_id_;
  std::vector<std::string> paths_;
  std::uint64_t next_name_ = 1;
  BootTime remove_at_{0};
};

}  // namespace muster

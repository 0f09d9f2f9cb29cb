// Keeps muster's own home on a node from growing: builds of muster that nobody uses, folders of
// agents whose controller has not come back, files that no job needs. Other agents share the home,
// of other controllers, other builds and, over a shared file system, other hosts: what is in use is
// marked so every few hours, and only what nobody has marked for long goes. In a child of the
// agent's; owned by the agent.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/agent/node/child_tasks.h"
#include "launcher/agent/node/run_directory.h"
#include "runtime/protocol/boot_clock.h"
#include "scheduler/model/retention.h"

namespace muster {

struct NodeHome {
  std::string home;
  std::string own_run;     // the agent's run directory
  std::string own_binary;  // what it is running, by whatever name
};

// What was removed, at a wall clock's `now`.
std::vector<Removed> clean_node_home(const NodeHome& node, const RetentionLimits& keep, Time now);

class NodeCleaning {
 public:
  NodeCleaning(NodeHome node, ChildTasks& tasks, BootTime now);

  void keep(const RetentionLimits& retention) { retention_ = retention; }
  void poll(BootTime now);

 private:
  void mark_used() const;

  NodeHome node_;
  ChildTasks& tasks_;
  RetentionLimits retention_{};  // as the controller says; until then all stays
  BootTime due_;
};

}  // namespace muster

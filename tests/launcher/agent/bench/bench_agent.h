// A real agent on a root of its own, greeted as a controller greets it, whose helper can be told
// apart: for measurements of the health checks.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "scheduler/model/health_profile.h"
#include "scheduler/model/node_fault.h"
#include "tests/launcher/agent/test_node.h"

namespace muster {

// Used so far, user and system.
struct ProcessorTime {
  double agent_s = 0;
  double helper_s = 0;  // of the process that reads for the agent; 0: there is none
};

class BenchAgent {
 public:
  // Everything that it says of its node comes from below `root`.
  BenchAgent(const std::string& root, const std::optional<HealthProfile>& profile);

  // Has all sources read; requires that nothing is wrong with them.
  void pass_gate();
  void start_rank();
  // Whether it was told in time; faults that were told before do not count.
  bool await_fault(const std::string& check, const std::string& device, Remedy at_least,
                   std::chrono::milliseconds limit);

  // Requires that the helper is still the first one.
  ProcessorTime used();
  std::string run_directory() const { return node_.run_directory(); }

 private:
  static AgentClient served(TestNode& node, const std::string& root);

  TestNode node_;
  AgentClient client_;
  pid_t helper_ = 0;
};

}  // namespace muster

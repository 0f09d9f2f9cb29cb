// Runs probes on nodes that this process only reaches through somebody else: the agents, or a
// model of them. Blocks.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace muster {

struct NodeCommand {
  std::string node;
  std::vector<std::string> words;    // of a probe, behind `muster agent probe`
  std::string token;                 // for its environment: arguments can be read by everybody
  std::chrono::seconds deadline{0};  // it is killed then
};

struct NodeOutput {
  std::string lines;  // what it printed, also before it was killed
  std::string error;  // why it did not end by itself, or never ran; empty: it ended
  // Somebody else had the node, a job or another measurement: what it says counts for nothing.
  bool is_void = false;
};

class RunOnNode {
 public:
  virtual ~RunOnNode() = default;
  // All at the same time; returns when each has ended or was killed, in the same order.
  virtual std::vector<NodeOutput> run(const std::vector<NodeCommand>& commands) = 0;
};

}  // namespace muster

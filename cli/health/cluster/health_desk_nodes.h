// Runs probes on nodes of the cluster through the controller, which reaches their agents. Blocks;
// a connection for each call, which ends the probes when this process does.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/terminal/common_options.h"
#include "health/fault_isolation/run_on_node.h"
#include "launcher/wire/client_message.h"
#include "scheduler/model/result.h"

namespace muster {

// By node. The Error: the controller does not say.
using JobOfNode = std::map<std::string, std::string>;
Result<JobOfNode> jobs_on_nodes(const CommonOptions& common);

class DeskNodes : public RunOnNode {
 public:
  // `reach`: how long a node may take to be connected.
  DeskNodes(ComputeTarget target, Milliseconds reach, const CommonOptions& common)
      : target_(std::move(target)), reach_(reach), common_(common) {}

  std::vector<NodeOutput> run(const std::vector<NodeCommand>& commands) override;

 private:
  std::vector<NodeOutput> ask(const std::vector<NodeCommand>& commands);

  ComputeTarget target_;
  Milliseconds reach_;
  const CommonOptions& common_;
};

// What the controller is asked for, of the nodes that are to run something alone.
MeasureNodes probes_of(const ComputeTarget& target, const std::vector<NodeCommand>& commands,
                       Milliseconds reach);

}  // namespace muster

// `muster health NODE…` and `--target NAME`: the health of nodes of the cluster, asked from here.
// The controller reaches their agents, which run the checks; each node answers for itself, and what
// only several of them show is added. The same for `muster health active NODE…`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/health/run.h"
#include "cli/terminal/common_options.h"
#include "health/fault_isolation/measure.h"
#include "launcher/wire/client_message.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/result.h"

namespace muster {

int run_health_nodes(const HealthRunOptions& options, const CommonOptions& common);

// Runs probes on nodes of the cluster through the controller, which reaches their agents. Blocks;
// a connection for each call, which ends the probes when this process does.

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

// Which nodes of the cluster are meant by the words of a command line: names, brackets (h[01-04])
// and patterns (h0*). Pure.

// The targets with those of their nodes that are meant, each node once, of the first target that
// has it. Without words all nodes of `target`; without `target` those of any. A word that stands
// for no node ends the verb, which says what was meant.
std::vector<ComputeTarget> chosen_nodes(const std::vector<ComputeTarget>& targets,
                                        const std::string& target,
                                        const std::vector<std::string>& words);

}  // namespace muster

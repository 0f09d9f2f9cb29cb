// The processes of a job on this machine, its pretend nodes and the hosts of its sandboxes: found
// in /proc by the job's name in their environment. As the user of the processes, or root.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/process_scan.h"
#include "scheduler/model/ids.h"

namespace muster {

struct RankProcess {
  int rank = 0;
  ProcessInfo process;  // the first one of the rank
};
// By rank.
std::vector<RankProcess> rank_processes(const JobId& job);

struct AgentProcess {
  std::string node;
  ProcessInfo process;
};
// Those that look after processes of the job now; by node.
std::vector<AgentProcess> agents_of(const JobId& job);

// Every process of the job, living.
std::vector<ProcessInfo> job_processes(const JobId& job);

}  // namespace muster

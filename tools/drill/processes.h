// The processes that a drill can hit, on this machine, its pretend nodes and the hosts of its
// sandboxes: found in /proc. As the user of the processes, or root.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/node/process_scan.h"
#include "launcher/controller/store/home.h"
#include "scheduler/model/ids.h"

namespace muster {

struct DrillVictim {
  std::string name;  // "rank 3", the node of an agent or of a connection
  ProcessInfo process;
};
std::string describe(const DrillVictim& victim);
std::string rank_name(int rank);

// The first process of each rank, by rank.
std::vector<DrillVictim> rank_processes(const JobId& job);

// Those that look after processes of the job now; by node.
std::vector<DrillVictim> agents_of(const JobId& job);
// Those of this home's controller on these nodes.
std::vector<DrillVictim> agents_on(const Home& home, const std::vector<std::string>& nodes);

// What joins the controller to these agents: the sshd of the connection, or the local process.
std::vector<DrillVictim> connections_to(const Home& home, const std::vector<DrillVictim>& agents);

// The folder of its checkpoints as a living rank sees it, by a path of this process; or empty.
std::string checkpoints_of(const JobId& job);

// Every process of the job, living.
std::vector<ProcessInfo> job_processes(const JobId& job);

}  // namespace muster

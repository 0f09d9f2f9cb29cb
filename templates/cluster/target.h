// Which compute target a job runs on, and the targets that always exist. Pure.
#pragma once

#include <string>
#include <vector>

#include "scheduler/model/compute.h"
#include "templates/job/job_file.h"

namespace muster {

// This host, one node named "local", no ssh.
ComputeTarget local_target();
// This host as up to 64 simulated nodes, "local-0" …: for trying things and for tests.
ComputeTarget local_cluster_target();
constexpr int local_cluster_nodes = 64;

struct ResolvedTarget {
  const ComputeTarget* target = nullptr;  // into the list given; null after a finding
  std::vector<Finding> findings;
};

// `known` holds every target, the built-in ones included. A job that names none gets
// `default_target`, or `local` when that is empty. Findings: unknown target, too few nodes, several
// nodes on `local`, node names in muster.placement that the target does not have.
ResolvedTarget resolve_target(const JobFile& job, const std::vector<ComputeTarget>& known,
                              const std::string& default_target);

}  // namespace muster

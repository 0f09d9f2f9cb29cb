// What a job needs on its nodes and where it comes from on this machine: the code, and inputs that
// the nodes cannot see by themselves.
#pragma once

#include <string>
#include <vector>

#include "launcher/controller/store/home.h"
#include "launcher/staging/snapshot.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/job_spec.h"

namespace muster {

// One request for each tree; nothing is read yet.
std::vector<SnapshotRequest> sources_of(const JobSpec& spec, const ComputeTarget& target);

// Whether every node of the target sees `path` under that name: nodes on this machine do, and all
// do below the shared root.
bool seen_by_nodes(const std::string& path, const ComputeTarget& target);

struct Staged {
  std::vector<Tree> trees;
  std::vector<std::string> warnings;
};

// Takes the snapshots into the blobs of the home.
Result<Staged> stage_sources(const Home& home, const JobSpec& spec, const ComputeTarget& target);

}  // namespace muster

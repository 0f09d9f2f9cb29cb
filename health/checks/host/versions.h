// What a node says of its software and network, to be compared with the other nodes' by
// judge_majority, and what only its peers can tell of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "health/compare/majority.h"
#include "health/model/source_files.h"
#include "scheduler/text/clock.h"

namespace muster {

// "kernel", "ofed", "libcuda", "nccl", and "muster", the hash of the binary; what is not installed
// is left out. For host.versions.
Facts versions_of(const SourceFiles& files, const std::string& binary_hash);
// "mtu ib0" for each interface that is up. For host.net.
Facts mtus_of(const SourceFiles& files);

struct NetFacts {
  std::optional<Milliseconds> round_trip;  // to the node over the controller's channel
  std::vector<std::string> unknown_peers;  // names that the node could not resolve
  std::optional<bool> is_master_port_free;
};

}  // namespace muster

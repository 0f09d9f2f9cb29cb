// What is wrong with the links of a node at one time: ib.state, ib.phys, ib.rate, ib.link_layer,
// ib.lid, ib.pkey and ib.gid. Pure: files and profile in, findings out.
#pragma once

#include <span>
#include <vector>

#include "health/checks/infiniband/port.h"
#include "health/model/finding.h"

namespace muster {

// Ports that all wait in INIT lack a subnet manager, which is not the node's fault. `is_of_links`:
// only what infiniband_link_sources() tell is judged.
std::vector<HealthFinding> judge_links(const SourceFiles& files, const HealthProfile& profile,
                                       std::span<const InfinibandPort> ports,
                                       bool is_of_links = false);

}  // namespace muster

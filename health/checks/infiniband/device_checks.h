// The versions of InfiniBand devices, which nodes compare. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "health/checks/infiniband/port.h"
#include "health/model/finding.h"

namespace muster {

// For ib.fw, which one node cannot judge: most nodes are right. Empty: unreadable.
struct InfinibandVersions {
  std::string device;
  std::string guid;
  std::string firmware;  // "28.39.1002"
  std::string board;     // "MT_0000000838"
  std::string type;      // "MT4129"
  friend bool operator==(const InfinibandVersions&, const InfinibandVersions&) = default;
};
std::vector<InfinibandVersions> infiniband_versions(const SourceFiles& files,
                                                    std::span<const InfinibandPort> ports);

}  // namespace muster

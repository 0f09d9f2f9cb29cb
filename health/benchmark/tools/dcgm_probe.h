// The diagnostics of NVIDIA's Data Center GPU Manager, which this runs and ends: it is known to
// hang. Prints what it finds.
#pragma once

#include <chrono>

namespace muster {

struct DcgmProbeOptions {
  int level = 1;
  std::chrono::seconds limit{0};  // 0: that of the level
};

void probe_dcgm(const DcgmProbeOptions& options);

}  // namespace muster

// Judges a node's GPUs: what the driver and the files of the system say, against the profile and
// against what they said before. Pure: readings in, findings out. What the profile does not say is
// not judged; a growth needs an earlier reading of the same boot.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "health/model/finding.h"
#include "health/model/gpu_readings.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"

namespace muster {

// An earlier look at the same node. GPUs are matched by UUID, counters of another boot do not
// count.
struct GpuBefore {
  const GpuReadings& readings;
  const SourceFiles& files;
  std::chrono::duration<double> age;
};

struct GpuSituation {
  const GpuReadings& now;
  const SourceFiles& files;  // of gpu_sources() and gpu_device_sources()
  const HealthProfile& profile;
  const GpuBefore* before = nullptr;
  bool is_idle = false;  // no ranks: whatever uses a GPU was left behind
  const std::map<std::string, std::string>* rank_environment = nullptr;
};

// All gpu.* checks but those of the kernel log and gpu.dstate. A reading that failed
// is unknown; one that the GPU does not support is left out unless the profile requires the check;
// one that was not asked for is left out. On a GPU of which the driver wants more than "none",
// failures of the node's class follow the driver (gpu.recovery_action). Excluded devices and modes
// are the caller's. A profile that says 0 GPUs has no findings; neither has one that says nothing
// where there is no driver.
std::vector<HealthFinding> judge_gpus(const GpuSituation& situation);

}  // namespace muster

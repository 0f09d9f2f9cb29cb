// The GPUs' part of a full load: muster-gpu-probe gpu-burn as a child beside the load on
// processors. One thread; to be started before any other.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "health/model/performance.h"
#include "health/read/tool_process.h"

namespace muster {

class GpuBurn {
 public:
  GpuBurn(int gpus, std::chrono::milliseconds time);

  // Waits for its end, which it is given some time for, and says how steady each GPU was; of those
  // that it does not tell of that they are unknown. Once.
  std::vector<PerformanceSample> finish();
  int count() const { return gpus_; }

 private:
  int gpus_;
  std::chrono::steady_clock::time_point until_;
  ToolProcess program_;
};

// What the program said, of so many GPUs. Pure.
std::vector<PerformanceSample> gpu_burn_samples(const ToolRun& run, int gpus);

}  // namespace muster

// Asks the driver everything that the checks judge and hands each answer on at once, with the call
// before it: whoever runs this in a child process keeps what came before a call that hangs, and
// knows which call it was. One thread; makes only calls that read.
#pragma once

#include "health/model/gpu_readings.h"
#include "health/nvml/library.h"

namespace muster {

// What costs milliseconds and more is asked only when wanted.
struct GpuReadingScope {
  bool processes = true;  // 0.1 to 4.5 ms a GPU under a lock that running ranks need
  bool inforom = true;    // reads flash memory
  bool topology = false;  // all pairs: 600 ms
};

// The readings of all GPUs; begins with nvmlInit and ends with nvmlShutdown. A GPU that is lost is
// asked no more.
void read_gpus(const NvmlFunctions& nvml, const GpuReadingScope& scope, const GpuReadingSink& sink);

// The same with the library of the path (empty: the usual one), collected. Where there is no
// library, `init` says so.
GpuReadings read_gpus_of_library(const std::string& path, const GpuReadingScope& scope);

}  // namespace muster

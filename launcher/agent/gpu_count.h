// How many GPUs the driver has on this machine, from its list below /proc: NVML would ask the
// driver itself, and hang with one that is dead. Touches no device.
#pragma once

#include <string>

#include "scheduler/model/result.h"

namespace muster {

// Where the machine's /proc is found instead of at "/": a sandbox shows its hosts GPUs by it.
inline constexpr const char* system_root_name = "MUSTER_SYSROOT";

// The PCI addresses, as 0000:3b:00.0, in `root`/proc/driver/nvidia/gpus; none without the driver.
Result<int> count_gpus(const std::string& root);

}  // namespace muster

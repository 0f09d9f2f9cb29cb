// CheckNode's answer: the start gate's verdict and the newest checkpoint. May block: run in a
// child.
#pragma once

#include <string>

#include "launcher/agent/keeper/rank_environment.h"
#include "launcher/agent/watch/checkpoint.h"
#include "launcher/wire/agent_message.h"
#include "scheduler/model/result.h"

namespace muster {

CheckDone check_node(const CheckNode& request, const std::string& home,
                     const std::string& path_list, const SavePlaces& places);

// What Welcome says of the machine.
Welcome describe_node();

// Where the machine's /proc is found instead of at "/": a sandbox shows its hosts GPUs by it.
inline constexpr const char* system_root_name = "MUSTER_SYSROOT";
std::string system_root(const Environment& own);

// How many GPUs the driver has on this machine, from its list below /proc: NVML would ask the
// driver itself, and hang with one that is dead. Touches no device. The PCI addresses, as
// 0000:3b:00.0, in `root`/proc/driver/nvidia/gpus; none without the driver.
Result<int> count_gpus(const std::string& root);

}  // namespace muster

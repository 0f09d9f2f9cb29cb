// Simulated GPUs of a host: the files by which the NVIDIA driver lists them below /proc,
// in a folder of the host that its agent is told to look in. There is nothing else of a GPU.
#pragma once

#include <filesystem>
#include <string>

#include "scheduler/model/result.h"
#include "tools/sandbox/layout.h"
#include "tools/sandbox/state.h"

namespace muster {

inline constexpr int max_fake_gpus = 64;

// "0000:01:00.0": of the GPU with this number, from 0.
std::string gpu_address(int number);
// The text of its `information`.
std::string gpu_information(const std::string& host, int number);

// Nothing, when the hosts have the GPUs of this machine.
Status make_fake_gpus(const SandboxLayout& layout, const SandboxState& state);

}  // namespace muster

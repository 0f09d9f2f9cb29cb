// Where muster-gpu-probe is, which measures GPUs: beside this program, or in PATH.
#pragma once

#include <string>

namespace muster {

inline constexpr const char* gpu_program_name = "muster-gpu-probe";

// A path, or the name alone, to be looked up in PATH.
std::string gpu_program();
// "muster-gpu-probe is not built, or not installed here"
std::string no_gpu_program();

}  // namespace muster

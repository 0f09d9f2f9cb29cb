// Copies between GPUs and hosts and within GPUs, by nvbandwidth
// (https://github.com/NVIDIA/nvbandwidth, 0.4 and later: `--json`). GB/s, but for memory: MB/s.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/performance.h"
#include "health/read/tool_process.h"
#include "scheduler/model/result.h"

namespace muster {

enum class CopyKind { host, memory, peer };

std::vector<std::string> nvbandwidth_argv(CopyKind kind);

// The samples of the kind's test cases: of each GPU, of each pair "gpu0:gpu1". A case that was
// waived or failed has one without a number.
Result<std::vector<PerformanceSample>> read_nvbandwidth(std::string_view json, CopyKind kind);

std::vector<PerformanceSample> nvbandwidth_samples(CopyKind kind, const ToolRun& run);
std::vector<PerformanceSample> run_nvbandwidth(CopyKind kind, std::chrono::seconds limit);

}  // namespace muster

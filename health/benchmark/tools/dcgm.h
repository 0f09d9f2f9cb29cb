// What `dcgmi diag -j` found, as counts of failed tests: of the node, and of each GPU that a test
// tells of. Its form has no published contract. Read are those of DCGM 2 and 3 ("DCGM GPU
// Diagnostic", results by gpu_id or gpu_ids) and of 4 ("DCGM Diagnostic", results by entity), which
// are the same otherwise. A word or a form that is none of these is unknown. Pure.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/performance.h"
#include "health/read/tool_process.h"
#include "scheduler/model/result.h"

namespace muster {

inline constexpr const char* dcgm_metric = "dcgm_failed_tests";

// How thorough it is: 1 looks at the software, 2 takes minutes, 3 a quarter of an hour, 4 longer.
inline constexpr int dcgm_level_max = 4;

struct DcgmLevel {
  std::chrono::seconds time;   // about
  std::chrono::seconds limit;  // by which it has hung
};
DcgmLevel dcgm_level(int level);

std::vector<std::string> dcgm_argv(int level);

// The samples of each device that is told of, and of the node where tests are of no device. A test
// that passed or was skipped is no fault; a device whose tests were all skipped has no number.
Result<std::vector<PerformanceSample>> read_dcgm_report(std::string_view output);

// At least one: why there is no number, else.
std::vector<PerformanceSample> dcgm_samples(const ToolRun& run, std::chrono::seconds limit);

// Runs it, and asks it to end at the limit: it is known to hang.
std::vector<PerformanceSample> run_dcgm(int level, std::chrono::seconds limit);

}  // namespace muster

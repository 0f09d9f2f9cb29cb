// Processors and memory under load, by stress-ng (https://github.com/ColinIanKing/stress-ng, 0.15
// and 0.18): fp32 matrix products, STREAM, and computations whose results it verifies.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/performance.h"
#include "health/read/tool_process.h"
#include "scheduler/model/result.h"

namespace muster {

inline constexpr std::string_view processor_corruption_metric = "cpu_sdc_wrong_products";

enum class StressKind { matrix, stream, verify };

struct StressCall {
  StressKind kind = StressKind::matrix;
  int processors = 1;
  std::chrono::seconds time{5};
};
std::vector<std::string> stress_ng_argv(const StressCall& call);

// A number of a stressor in the metrics that stress-ng writes as YAML; an error where there is no
// such stressor, or its number is none.
Result<double> read_stress_metric(std::string_view yaml, std::string_view stressor,
                                  std::string_view name);

// cpu_gemm_gflops, stream_mb_per_s or cpu_sdc_wrong_products.
std::vector<PerformanceSample> stress_ng_samples(const StressCall& call, const ToolRun& run);
std::vector<PerformanceSample> run_stress_ng(const StressCall& call);

}  // namespace muster

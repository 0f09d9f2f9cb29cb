#include "health/active/gpu_burn.h"

#include "health/active/burn_probe.h"
#include "health/active/gpu_program.h"
#include "health/benchmark/samples.h"
#include "health/benchmark/tools/sample_line.h"

namespace muster {

namespace {

using std::chrono::ceil;
using std::chrono::seconds;

// It sets up libraries and matrices on each GPU before its time begins, and ends with their
// drivers.
constexpr seconds margin{90};

std::vector<std::string> argv_of(std::chrono::milliseconds time) {
  return {gpu_program(), "gpu-burn", "--seconds", std::to_string(ceil<seconds>(time).count())};
}

std::string why_untold(const ToolRun& run, std::size_t told, int gpus) {
  const std::string said = probe_text(run.errors.substr(0, run.errors.find('\n')));
  const std::string because = said.empty() ? "" : ": " + said;
  const std::string name = gpu_program_name;
  if (!run.exit_code) return name + " did not end in time, or did not begin" + because;
  if (*run.exit_code != 0) return name + " ended with " + std::to_string(*run.exit_code) + because;
  return name + " told of " + std::to_string(told) + " of " + std::to_string(gpus) + " GPUs";
}

}  // namespace

GpuBurn::GpuBurn(int gpus, std::chrono::milliseconds time)
    : gpus_(gpus),
      until_(std::chrono::steady_clock::now() + time + margin),
      program_(argv_of(time)) {}

std::vector<PerformanceSample> GpuBurn::finish() {
  return gpu_burn_samples(program_.wait(until_), gpus_);
}

std::vector<PerformanceSample> gpu_burn_samples(const ToolRun& run, int gpus) {
  if (!run.is_found) return {{burn_rate_metric, "", std::nullopt, no_gpu_program(), true}};
  std::vector<PerformanceSample> samples;
  std::size_t told = 0;
  bool is_node_told = false;
  for (PerformanceSample& sample : read_probe_output(run.output).samples) {
    if (sample.metric != burn_rate_metric) continue;
    if (sample.device.empty()) is_node_told = true;
    // The processors have a line of their own.
    const bool is_gpu = sample.device.starts_with("gpu");
    if (is_gpu) ++told;
    if (is_gpu || sample.device.empty()) samples.push_back(std::move(sample));
  }
  const bool ended_well = run.exit_code && *run.exit_code == 0;
  if (!is_node_told && (!ended_well || told < static_cast<std::size_t>(gpus)))
    samples.push_back({burn_rate_metric, "", std::nullopt, why_untold(run, told, gpus)});
  return samples;
}

}  // namespace muster

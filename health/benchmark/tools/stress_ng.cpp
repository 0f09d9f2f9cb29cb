#include "health/benchmark/tools/tools.h"

#include <algorithm>
#include <set>

#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr BenchmarkTool stress_ng{"stress-ng", "stress-ng"};
// Three matrices that stay in the caches of one processor.
constexpr int matrix_side = 256;
// A product of two of them: a multiplication and an addition each.
constexpr double operations_of_a_product = 2.0 * matrix_side * matrix_side * matrix_side;
// Of a processor's arrays: no processor has that much of a last cache.
constexpr const char* stream_cache = "--stream-l3-size=16m";
// It ends at once where it may not write, though these stressors have no files: agents are in "/".
constexpr const char* temp_path = "/tmp";
// Of its exit codes: a stressor failed.
constexpr int code_of_failure = 2;

std::string_view metric_of(StressKind kind) {
  if (kind == StressKind::matrix) return "cpu_gemm_gflops";
  return kind == StressKind::stream ? "stream_mb_per_s" : processor_corruption_metric;
}

// Each line that tells of a wrong result: "stress-ng: fail:  [5123] matrix: …". One process may
// tell of many.
PerformanceSample count_failures(const ToolRun& run) {
  std::string_view text = run.errors;
  std::set<std::string> failed;
  std::string first;
  while (!text.empty()) {
    const std::string_view line = take_until(text, '\n');
    const std::size_t open = line.find('[');
    const std::size_t close = line.find(']', std::min(open, line.size()));
    if (!line.starts_with("stress-ng: fail:") || close == line.npos) continue;
    failed.emplace(line.substr(open, close - open));
    if (first.empty()) first = trimmed(line.substr(close + 1));
  }
  if (failed.empty()) return no_number(processor_corruption_metric, why_no_number(stress_ng, run));
  auto sample = number_of(processor_corruption_metric, static_cast<double>(failed.size()));
  sample.note = probe_text(first.empty() ? "a stressor failed" : first);
  return sample;
}

// A number of a stressor in the metrics that stress-ng writes as YAML; an error where there is no
// such stressor, or its number is none.
Result<double> read_stress_metric(std::string_view yaml, std::string_view stressor,
                                  std::string_view name) {
  bool is_metrics = false;
  bool is_of_stressor = false;
  while (!yaml.empty()) {
    const std::string_view line = take_until(yaml, '\n');
    if (line.starts_with("metrics:")) is_metrics = true;
    if (!is_metrics) continue;
    const std::size_t colon = line.find(": ");
    if (colon == line.npos) continue;
    const std::string_view key = trimmed(line.substr(0, colon));
    const std::string_view value = trimmed(line.substr(colon + 2));
    if (key == "- stressor") is_of_stressor = value == stressor;
    if (!is_of_stressor || key != name) continue;
    const auto number = read_number(value);
    if (number && *number > 0) return *number;
    break;
  }
  return Error{"stress-ng told no " + std::string(name) + " of " + std::string(stressor)};
}

Result<double> gflops_of(std::string_view yaml) {
  const auto products = read_stress_metric(yaml, "matrix", "bogo-ops-per-second-real-time");
  if (!products) return products.error();
  return *products * operations_of_a_product / 1e9;
}

// What is read and written by all: the means are of one processor. The names changed with 0.16.
Result<double> stream_of(std::string_view yaml, int processors) {
  double sum = 0;
  for (const std::string way : {"read", "write"}) {
    auto rate = read_stress_metric(yaml, "stream", "memory-" + way + "-rate-mb-per-sec");
    if (!rate) rate = read_stress_metric(yaml, "stream", "mb-per-sec-memory-" + way + "-rate");
    if (!rate) return rate;
    sum += *rate;
  }
  return sum * processors;
}

}  // namespace

std::vector<std::string> stress_ng_argv(const StressCall& call) {
  const std::string count = std::to_string(call.processors);
  std::vector<std::string> argv{"stress-ng", "--timeout", std::to_string(call.time.count()) + "s",
                                "--metrics", "--verify",  "--temp-path",
                                temp_path,   "--yaml",    "/dev/stdout"};
  switch (call.kind) {
    case StressKind::matrix:
      argv.insert(argv.end(), {"--matrix", count, "--matrix-method", "prod", "--matrix-size",
                               std::to_string(matrix_side)});
      break;
    case StressKind::stream:
      argv.insert(argv.end(), {"--stream", count, stream_cache});
      break;
    case StressKind::verify:
      argv.insert(argv.end(), {"--cpu", count, "--matrix", count, "--vecmath", count});
  }
  return argv;
}

std::vector<PerformanceSample> stress_ng_samples(const StressCall& call, const ToolRun& run) {
  const std::string_view metric = metric_of(call.kind);
  const bool verifies = call.kind == StressKind::verify;
  if (run.exit_code == code_of_failure && verifies) return {count_failures(run)};
  if (run.exit_code != 0) return {no_number(metric, stress_ng, run)};
  if (verifies) {
    // It verified something.
    const auto told = read_stress_metric(run.output, "matrix", "bogo-ops");
    return {number_of(metric, told ? Result<double>(0) : told)};
  }
  return {number_of(metric, call.kind == StressKind::matrix
                                ? gflops_of(run.output)
                                : stream_of(run.output, call.processors))};
}

}  // namespace muster

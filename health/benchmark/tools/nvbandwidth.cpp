#include "health/benchmark/tools/tools.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "health/benchmark/tools/sample_line.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

using Json = nlohmann::json;

constexpr BenchmarkTool nvbandwidth{"nvbandwidth", "nvbandwidth of NVIDIA's repository"};
// No node has more.
constexpr std::size_t gpus_most = 255;

struct CopyTest {
  CopyKind kind;
  std::string_view name;
  std::string_view metric;
  double factor;  // from GB/s
};
// A copy within a GPU reads and writes what the tool counts once.
constexpr CopyTest copy_tests[] = {
    {CopyKind::host, "host_to_device_memcpy_ce", "h2d_gb_per_s", 1},
    {CopyKind::host, "device_to_host_memcpy_ce", "d2h_gb_per_s", 1},
    {CopyKind::memory, "device_local_copy", "hbm_mb_per_s", 2000},
    {CopyKind::peer, "device_to_device_memcpy_write_ce", "p2p_gb_per_s", 1}};

std::string name_of_gpu(std::size_t gpu) {
  return "gpu" + std::to_string(gpu);
}

// A number, or nothing where there is "N/A"; anything else is no matrix.
void take_cell(const CopyTest& test, const Json& cell, std::string device,
               std::vector<PerformanceSample>& samples) {
  const auto& text = cell.get_ref<const std::string&>();
  if (text == "N/A") return;
  const auto number = read_number(text);
  if (!number || *number < 0) throw std::domain_error("no number");
  if (*number > 0) samples.push_back(number_of(test.metric, *number * test.factor, device));
}

void take_matrix(const CopyTest& test, const Json& matrix,
                 std::vector<PerformanceSample>& samples) {
  const bool is_of_pairs = test.kind == CopyKind::peer;
  if (matrix.size() > gpus_most || (!is_of_pairs && matrix.size() != 1))
    throw std::domain_error("no matrix");
  for (std::size_t row = 0; row < matrix.size(); ++row) {
    const Json& cells = matrix.at(row);
    if (cells.size() > gpus_most) throw std::domain_error("no matrix");
    for (std::size_t column = 0; column < cells.size(); ++column) {
      if (is_of_pairs && row == column) continue;
      const std::string device =
          is_of_pairs ? name_of_gpu(row) + ":" + name_of_gpu(column) : name_of_gpu(column);
      take_cell(test, cells.at(column), device, samples);
    }
  }
}

void take_test(const CopyTest& test, const Json& told, std::vector<PerformanceSample>& samples) {
  const auto status = told.at("status").get<std::string>();
  const std::size_t before = samples.size();
  if (status == "Passed") take_matrix(test, told.at("bandwidth_matrix"), samples);
  if (samples.size() > before) return;
  samples.push_back(no_number(test.metric, "nvbandwidth: " + std::string(test.name) + ": " +
                                               (status == "Passed" ? "no number" : status)));
}

// The samples of the kind's test cases: of each GPU, of each pair "gpu0:gpu1". A case that was
// waived or failed has one without a number.
Result<std::vector<PerformanceSample>> read_nvbandwidth(std::string_view text, CopyKind kind) {
  // Libraries may warn beforehand.
  text.remove_prefix(std::min(text.find('{'), text.size()));
  const Json root = Json::parse(text, nullptr, false);
  try {
    const Json& report = root.at("nvbandwidth");
    if (report.contains("error"))
      return Error{"nvbandwidth: " + probe_text(report.at("error").get<std::string>())};
    std::vector<PerformanceSample> samples;
    for (const CopyTest& test : copy_tests) {
      if (test.kind != kind) continue;
      const Json& cases = report.at("testcases");
      const auto told = std::ranges::find_if(
          cases, [&](const Json& one) { return one.at("name").get<std::string>() == test.name; });
      if (told == cases.end())
        return Error{"nvbandwidth said nothing of " + std::string(test.name)};
      take_test(test, *told, samples);
    }
    return samples;
  } catch (const std::exception&) {
    return Error{"the report of nvbandwidth cannot be read"};
  }
}

}  // namespace

std::vector<std::string> nvbandwidth_argv(CopyKind kind) {
  std::vector<std::string> argv{"nvbandwidth", "--json"};
  for (const CopyTest& test : copy_tests) {
    if (test.kind == kind) argv.insert(argv.end(), {"--testcase", std::string(test.name)});
  }
  return argv;
}

std::vector<PerformanceSample> nvbandwidth_samples(CopyKind kind, const ToolRun& run) {
  std::vector<std::string_view> metrics;
  for (const CopyTest& test : copy_tests) {
    if (test.kind == kind) metrics.push_back(test.metric);
  }
  const bool is_report = run.exit_code && run.output.find('{') != std::string::npos;
  if (!is_report) return no_numbers(metrics, nvbandwidth, run);
  auto samples = read_nvbandwidth(run.output, kind);
  if (samples && run.exit_code == 0) return *std::move(samples);
  return no_numbers(metrics, samples ? why_no_number(nvbandwidth, run) : samples.error().message);
}

}  // namespace muster

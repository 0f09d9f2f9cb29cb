#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "health/benchmark/tools/tools.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

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

constexpr BenchmarkTool nccl_tests{"all_reduce_perf", "nccl-tests of NVIDIA"};
// size count type redop root, then twice: time algbw busbw #wrong.
constexpr std::size_t row_columns = 13;
constexpr std::size_t out_of_place = 7;
constexpr std::size_t in_place = 11;

struct TableRow {
  double bytes = 0;
  double bus_gb_per_s = 0;
  bool is_wrong = false;  // or not known to be right: "N/A"
};

std::optional<TableRow> read_row(std::string_view line) {
  const auto words = words_in(line, white_space, row_columns + 1);
  if (words.size() != row_columns) return std::nullopt;
  const auto bytes = read_number(words[0]);
  const auto out = read_number(words[out_of_place]);
  const auto in = read_number(words[in_place]);
  if (!bytes || !out || !in || *out <= 0 || *in <= 0) return std::nullopt;
  const bool is_wrong = read_number(words[out_of_place + 1]).value_or(1) != 0 ||
                        read_number(words[in_place + 1]).value_or(1) != 0;
  return TableRow{*bytes, std::min(*out, *in), is_wrong};
}

std::string metric_of(const AllReduceCall& call) {
  return call.over_infiniband ? "ib_loop_allreduce_gb_per_s"
                              : "allreduce" + std::to_string(call.gpus) + "_gb_per_s";
}

// Of the largest message, GB/s, the slower of out-of-place and in-place. An error where a result
// was wrong or there is no table.
Result<double> read_all_reduce(std::string_view output) {
  std::optional<TableRow> largest;
  bool is_right = false;
  while (!output.empty()) {
    const std::string_view line = take_until(output, '\n');
    if (line.starts_with("# Out of bounds values : 0 ")) is_right = true;
    const auto row = read_row(line);
    if (!row) continue;
    if (row->is_wrong) return Error{"all_reduce_perf: a wrong result, or one it did not check"};
    if (!largest || row->bytes > largest->bytes) largest = row;
  }
  if (!largest || !is_right) return Error{"the table of all_reduce_perf cannot be read"};
  return largest->bus_gb_per_s;
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

std::vector<std::string> nccl_tests_argv(const AllReduceCall& call) {
  // Ten rounds of each size: over InfiniBand alone they take a minute.
  std::vector<std::string> argv{
      "all_reduce_perf",        "-b", "1G", "-e", "8G", "-f", "2", "-n", "10", "-g",
      std::to_string(call.gpus)};
  if (call.over_infiniband)
    argv.insert(argv.begin(), {"env", "NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1"});
  return argv;
}

std::vector<PerformanceSample> nccl_tests_samples(const AllReduceCall& call, const ToolRun& run) {
  const std::string metric = metric_of(call);
  // `env`, which is always there, says so with a code of its own.
  constexpr int code_of_env = 127;
  if (call.over_infiniband && run.exit_code == code_of_env) {
    ToolRun missing;
    missing.is_found = false;
    return {no_number(metric, nccl_tests, missing)};
  }
  if (run.exit_code != 0) return {no_number(metric, nccl_tests, run)};
  return {number_of(metric, read_all_reduce(run.output))};
}

}  // namespace muster

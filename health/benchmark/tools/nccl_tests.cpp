#include "health/benchmark/tools/tools.h"

#include <algorithm>
#include <optional>

#include "health/benchmark/tools/sample_line.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

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

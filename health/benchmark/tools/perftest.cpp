#include "health/benchmark/tools/perftest.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "health/benchmark/tools/sample_line.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

// A message that large fills the link with few of them under way.
constexpr const char* bandwidth_message_bytes = "1048576";
constexpr const char* latency_message_bytes = "2";
// With a duration instead, the tool prints no percentiles.
constexpr const char* latency_rounds = "20000";
constexpr std::string_view bandwidth_title = "BW average[Gb/sec]";
constexpr std::size_t bandwidth_column = 3;
constexpr std::string_view latency_title = "99% percentile[usec]";
constexpr std::size_t latency_column = 7;
constexpr std::size_t columns_max = 32;

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view white = " \t\r";
  std::vector<std::string_view> words;
  while (words.size() < columns_max) {
    const std::size_t begin = line.find_first_not_of(white);
    if (begin == std::string_view::npos) break;
    line.remove_prefix(begin);
    words.push_back(line.substr(0, line.find_first_of(white)));
    line.remove_prefix(words.back().size());
  }
  return words;
}

// Of a line of numbers; other lines may stand between title and numbers ("Conflicting CPU
// frequency values detected").
std::optional<double> column_of(std::string_view line, std::size_t column) {
  const auto words = words_of(line);
  if (words.size() <= column + 1) return std::nullopt;
  for (const std::string_view word : words) {
    if (!read_number(word)) return std::nullopt;
  }
  return read_number(words[column]);
}

// A positive one of the last line of numbers below the title.
std::optional<double> last_in_table(std::string_view output, std::string_view title,
                                    std::size_t column) {
  bool is_below = false;
  std::optional<double> last;
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(output.size(), line.size() + 1));
    if (line.find("#bytes") != std::string_view::npos) {
      is_below = line.find(title) != std::string_view::npos;
      last.reset();
    } else if (const auto value = is_below ? column_of(line, column) : std::nullopt) {
      last = value;
    }
  }
  return last && *last > 0 ? last : std::nullopt;
}

}  // namespace

std::string perftest_program(PerftestKind kind) {
  return kind == PerftestKind::write_bandwidth ? "ib_write_bw" : "ib_write_lat";
}

std::vector<std::string> perftest_argv(const PerftestCall& call) {
  const bool is_bandwidth = call.kind == PerftestKind::write_bandwidth;
  // -F: a processor that changes its clock is no reason to end.
  std::vector<std::string> argv{perftest_program(call.kind),
                                "-d",
                                call.device,
                                "-i",
                                std::to_string(call.port),
                                "-p",
                                std::to_string(call.tcp_port),
                                "-F",
                                "-s",
                                is_bandwidth ? bandwidth_message_bytes : latency_message_bytes};
  if (is_bandwidth) {
    // The first and the last second are not counted.
    for (const std::string& word :
         {std::string("--report_gbits"), std::string("-f"), std::string("1"), std::string("-D"),
          std::to_string(call.time.count() + 2)})
      argv.push_back(word);
  } else {
    argv.insert(argv.end(), {"-n", latency_rounds});
  }
  if (call.gpu) argv.push_back("--use_cuda=" + std::to_string(*call.gpu));
  if (!call.server.empty()) argv.push_back(call.server);
  return argv;
}

std::optional<double> read_write_bandwidth(std::string_view output) {
  return last_in_table(output, bandwidth_title, bandwidth_column);
}

std::optional<double> read_write_latency(std::string_view output) {
  return last_in_table(output, latency_title, latency_column);
}

PerformanceSample perftest_sample(const PerftestCall& call, const std::string& metric,
                                  const ToolRun& run) {
  const std::string program = perftest_program(call.kind);
  const BenchmarkTool tool{program.c_str(), "perftest"};
  const std::string_view name = metric;
  PerformanceSample sample = no_numbers({&name, 1}, tool, run).front();
  sample.device = call.device + ":" + std::to_string(call.port);
  if (run.exit_code != 0) return sample;
  sample.value = call.kind == PerftestKind::write_bandwidth ? read_write_bandwidth(run.output)
                                                            : read_write_latency(run.output);
  if (sample.value) sample.error.clear();
  return sample;
}

}  // namespace muster

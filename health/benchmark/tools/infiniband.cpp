#include "health/benchmark/tools/infiniband.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "health/benchmark/tools/sample_line.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

struct Perftest {
  PerftestKind kind;
  const char* program;
  const char* message_bytes;
  std::string_view title;  // of the column
  std::size_t column;
  const char* pair_metric;
};
// A message of a MiB fills the link with few of them under way.
constexpr Perftest perftests[] = {{PerftestKind::write_bandwidth, "ib_write_bw", "1048576",
                                   "BW average[Gb/sec]", 3, "ib_write_bw_host_gbps"},
                                  {PerftestKind::write_latency, "ib_write_lat", "2",
                                   "99% percentile[usec]", 7, "ib_latency_p99_us"}};
constexpr const Perftest& perftest_of(PerftestKind kind) {
  return perftests[static_cast<std::size_t>(kind)];
}
// With a duration instead, the tool prints no percentiles.
constexpr const char* latency_rounds = "20000";
constexpr std::size_t columns_max = 32;

// Of a line of numbers; other lines may stand between title and numbers ("Conflicting CPU
// frequency values detected").
std::optional<double> column_of(std::string_view line, std::size_t column) {
  const auto words = words_in(line, white_space, columns_max);
  if (words.size() <= column + 1) return std::nullopt;
  for (const std::string_view word : words) {
    if (!read_number(word)) return std::nullopt;
  }
  return read_number(words[column]);
}

using Clock = std::chrono::steady_clock;

// For a tool to open its device and meet the other end.
constexpr std::chrono::seconds set_up_limit{20};
// The connecting tool gives up at once while nobody listens yet.
constexpr std::chrono::milliseconds between_meetings{200};
constexpr const char* loop_metric = "ib_write_bw_gbps";

PerftestCall call_of(const InfinibandProbeOptions& options, const HcaPort& port) {
  PerftestCall call;
  call.device = port.device;
  call.port = port.port;
  call.tcp_port = options.tcp_port;
  call.time = options.time;
  return call;
}

// Until the serving end is there.
ToolRun run_until_met(const std::vector<std::string>& argv, Clock::time_point until) {
  const auto meet_until = Clock::now() + set_up_limit;
  for (;;) {
    const ToolRun run = ToolProcess(argv).wait(until);
    const bool is_over = !run.is_found || !run.exit_code || *run.exit_code == 0;
    if (is_over || Clock::now() >= std::min(meet_until, until)) return run;
    std::this_thread::sleep_for(between_meetings);
  }
}

Clock::time_point limit_of(const InfinibandProbeOptions& options) {
  return Clock::now() + options.time + 2 * set_up_limit;
}

std::optional<int> gpu_of(const InfinibandProbeOptions& options, std::size_t hca) {
  if (options.gpus == 0) return std::nullopt;
  return static_cast<int>(hca) % options.gpus;
}

// The two ends go through them in the same order, each on a TCP port of its own.
std::vector<std::pair<PerftestCall, std::string>> pair_calls(
    const InfinibandProbeOptions& options) {
  std::vector<std::pair<PerftestCall, std::string>> calls;
  std::uint16_t tcp_port = options.tcp_port;
  for (const HcaPort& port : options.ports) {
    for (const Perftest& test : perftests) {
      PerftestCall call = call_of(options, port);
      call.kind = test.kind;
      call.tcp_port = tcp_port++;
      calls.emplace_back(std::move(call), test.pair_metric);
    }
  }
  return calls;
}

}  // namespace

std::vector<std::string> perftest_argv(const PerftestCall& call) {
  const bool is_bandwidth = call.kind == PerftestKind::write_bandwidth;
  // -F: a processor that changes its clock is no reason to end.
  std::vector<std::string> argv{perftest_of(call.kind).program,
                                "-d",
                                call.device,
                                "-i",
                                std::to_string(call.port),
                                "-p",
                                std::to_string(call.tcp_port),
                                "-F",
                                "-s",
                                perftest_of(call.kind).message_bytes};
  if (is_bandwidth) {
    // The first and the last second are not counted.
    argv.insert(argv.end(),
                {"--report_gbits", "-f", "1", "-D", std::to_string(call.time.count() + 2)});
  } else {
    argv.insert(argv.end(), {"-n", latency_rounds});
  }
  if (call.gpu) argv.push_back("--use_cuda=" + std::to_string(*call.gpu));
  if (!call.server.empty()) argv.push_back(call.server);
  return argv;
}

std::optional<double> read_perftest(PerftestKind kind, std::string_view output) {
  const Perftest& test = perftest_of(kind);
  bool is_below = false;
  std::optional<double> last;
  while (!output.empty()) {
    const std::string_view line = take_until(output, '\n');
    if (line.find("#bytes") != std::string_view::npos) {
      is_below = line.find(test.title) != std::string_view::npos;
      last.reset();
    } else if (const auto value = is_below ? column_of(line, test.column) : std::nullopt) {
      last = value;
    }
  }
  return last && *last > 0 ? last : std::nullopt;
}

PerformanceSample perftest_sample(const PerftestCall& call, const std::string& metric,
                                  const ToolRun& run) {
  const BenchmarkTool tool{perftest_of(call.kind).program, "perftest"};
  PerformanceSample sample = no_number(metric, tool, run);
  sample.device = call.device + ":" + std::to_string(call.port);
  if (run.exit_code != 0) return sample;
  sample.value = read_perftest(call.kind, run.output);
  if (sample.value) sample.error.clear();
  return sample;
}

Result<HcaPort> read_hca_port(const std::string& text) {
  const std::string_view device = std::string_view(text).substr(0, text.find(':'));
  const std::string_view number =
      device.size() == text.size() ? "1" : std::string_view(text).substr(device.size() + 1);
  const auto port = read_integer(number);
  const bool is_port = port && *port >= 1 && *port <= 255;
  const bool is_name = is_word_of(device, "_-.") && device.size() <= 60 && device.front() != '-';
  if (!is_port || !is_name) return Error{"'" + text + "' is no port of an HCA, as mlx5_0:1 is"};
  return HcaPort{std::string(device), static_cast<int>(*port)};
}

void probe_infiniband_loop(const InfinibandProbeOptions& options) {
  for (std::size_t i = 0; i < options.ports.size(); ++i) {
    const std::size_t other = (i + 1) % options.ports.size();
    PerftestCall serve = call_of(options, options.ports[other]);
    serve.gpu = gpu_of(options, other);
    serve.tcp_port = static_cast<std::uint16_t>(options.tcp_port + i);
    PerftestCall connect = call_of(options, options.ports[i]);
    connect.gpu = gpu_of(options, i);
    connect.tcp_port = serve.tcp_port;
    connect.server = "localhost";
    ToolProcess server(perftest_argv(serve));
    print_sample(perftest_sample(connect, loop_metric,
                                 run_until_met(perftest_argv(connect), limit_of(options))));
  }
}

void serve_infiniband_pair(const InfinibandProbeOptions& options) {
  for (const auto& [call, metric] : pair_calls(options)) {
    const ToolRun run = ToolProcess(perftest_argv(call)).wait(limit_of(options));
    if (!run.is_found) return print_sample(perftest_sample(call, metric, run));
  }
}

void probe_infiniband_pair(const InfinibandProbeOptions& options) {
  for (auto& [call, metric] : pair_calls(options)) {
    call.server = options.server;
    print_sample(
        perftest_sample(call, metric, run_until_met(perftest_argv(call), limit_of(options))));
  }
}

}  // namespace muster

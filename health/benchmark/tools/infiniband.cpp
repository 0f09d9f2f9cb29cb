#include "health/benchmark/tools/infiniband.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "health/benchmark/tools/sample_line.h"
#include "health/read/tool_process.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

// For a tool to open its device and meet the other end.
constexpr std::chrono::seconds set_up_limit{20};
// The connecting tool gives up at once while nobody listens yet.
constexpr std::chrono::milliseconds between_meetings{200};
constexpr const char* loop_metric = "ib_write_bw_gbps";

struct PairTestOfPort {
  PerftestKind kind;
  const char* metric;
};
constexpr std::array pair_tests{
    PairTestOfPort{PerftestKind::write_bandwidth, "ib_write_bw_host_gbps"},
    PairTestOfPort{PerftestKind::write_latency, "ib_latency_p99_us"}};

struct PairCall {
  PerftestCall call;
  const char* metric;
};

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
std::vector<PairCall> pair_calls(const InfinibandProbeOptions& options) {
  std::vector<PairCall> calls;
  std::uint16_t tcp_port = options.tcp_port;
  for (const HcaPort& port : options.ports) {
    for (const PairTestOfPort& test : pair_tests) {
      PerftestCall call = call_of(options, port);
      call.kind = test.kind;
      call.tcp_port = tcp_port++;
      calls.push_back({std::move(call), test.metric});
    }
  }
  return calls;
}

}  // namespace

Result<HcaPort> read_hca_port(const std::string& text) {
  const std::string_view device = std::string_view(text).substr(0, text.find(':'));
  const std::string_view number =
      device.size() == text.size() ? "1" : std::string_view(text).substr(device.size() + 1);
  int port = 0;
  const auto [at, error] = std::from_chars(number.data(), number.data() + number.size(), port);
  const bool is_port =
      error == std::errc() && at == number.data() + number.size() && port >= 1 && port <= 255;
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  const bool is_name = !device.empty() && device.size() <= 60 && device.front() != '-' &&
                       std::ranges::all_of(device, fits);
  if (!is_port || !is_name) return Error{"'" + text + "' is no port of an HCA, as mlx5_0:1 is"};
  return HcaPort{std::string(device), port};
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

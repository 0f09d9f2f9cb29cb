#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "health/benchmark/tools/tools.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr BenchmarkTool iperf{"iperf3", "iperf3"};
constexpr std::array<std::string_view, 2> tcp_metrics{"tcp_gbps", "tcp_latency_us"};
// The partner may begin later; until then nobody listens.
constexpr std::chrono::seconds meeting_limit{20};
constexpr std::chrono::milliseconds between_tries{200};
constexpr std::chrono::seconds iperf_margin{10};
constexpr std::chrono::milliseconds between_readings{100};

// How long a process waited for a processor so far: of its threads the longest.
std::chrono::nanoseconds time_waited(pid_t process) {
  std::int64_t longest = 0;
  std::error_code none;
  const std::string folder = "/proc/" + std::to_string(process) + "/task";
  for (const auto& thread : std::filesystem::directory_iterator(folder, none)) {
    std::int64_t ran = 0;
    std::int64_t waited = 0;
    std::ifstream(thread.path() / "schedstat") >> ran >> waited;
    longest = std::max(longest, waited);
  }
  return std::chrono::nanoseconds(longest);
}

struct IperfRun {
  ToolRun run;
  double waited_pct = 0;
};

IperfRun run_iperf(const IperfCall& call, Clock::time_point until) {
  const auto began = Clock::now();
  ToolProcess tool(iperf_argv(call));
  std::chrono::nanoseconds waited{0};
  while (Clock::now() < until && !tool.is_over(std::min(until, Clock::now() + between_readings)))
    waited = std::max(waited, time_waited(tool.process()));
  const std::chrono::duration<double> took = Clock::now() - began;
  return {tool.wait(until), 100 * std::chrono::duration<double>(waited) / took};
}

// Until the serving end is there; one that serves the test before refuses.
IperfRun run_until_met(const IperfCall& call) {
  const auto meet_until = Clock::now() + meeting_limit;
  for (;;) {
    IperfRun tried = run_iperf(call, Clock::now() + call.time + iperf_margin);
    const bool is_over =
        !tried.run.is_found || !tried.run.exit_code || read_iperf(tried.run.output);
    if (is_over || Clock::now() >= meet_until) return tried;
    std::this_thread::sleep_for(between_tries);
  }
}

// Where it wrote no report, what it said last tells why.
void print_failure(const ToolRun& run, const std::string& why) {
  const bool is_report = run.exit_code && run.output.find('{') != std::string::npos;
  for (PerformanceSample& sample : no_numbers(tcp_metrics, iperf, run)) {
    if (is_report) sample.error = why;
    print_sample(sample);
  }
}

// Positive, and a number.
double positive(const Json& value) {
  const double number = value.get<double>();
  if (!std::isfinite(number) || number <= 0) throw std::domain_error("no positive number");
  return number;
}

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

std::vector<std::string> iperf_argv(const IperfCall& call) {
  std::vector<std::string> argv{"iperf3", "--json", "--port", std::to_string(call.port)};
  if (call.server.empty()) {
    argv.insert(argv.end(), {"--server", "--one-off"});
    if (!call.address.empty()) argv.insert(argv.end(), {"--bind", call.address});
    return argv;
  }
  argv.insert(argv.end(),
              {"--client", call.server, "--parallel", std::to_string(call.streams), "--time",
               std::to_string(call.time.count()), "--connect-timeout", "5000"});
  if (call.is_reverse) argv.emplace_back("--reverse");
  return argv;
}

Result<TcpFigures> read_iperf(std::string_view text) {
  const Json report = Json::parse(text, nullptr, false);
  try {
    if (report.contains("error"))
      return Error{"iperf3: " + probe_text(report.at("error").get<std::string>())};
    const Json& end = report.at("end");
    TcpFigures figures;
    figures.gbps = positive(end.at("sum_received").at("bits_per_second")) / 1e9;
    for (const Json& stream : end.at("streams")) {
      const Json& sender = stream.at("sender");
      // Of a test in reverse only the other end knows.
      const double rtt = sender.contains("min_rtt") ? sender.at("min_rtt").get<double>() : 0;
      if (rtt > 0 && std::isfinite(rtt))
        figures.round_trip_us =
            figures.round_trip_us > 0 ? std::min(figures.round_trip_us, rtt) : rtt;
    }
    return figures;
  } catch (const std::exception&) {
    return Error{"the report of iperf3 cannot be read"};
  }
}

void serve_tcp(IperfCall call, std::chrono::seconds wait) {
  double waited_pct = 0;
  for (int test = 0; test < 2; ++test) {
    const IperfRun served = run_iperf(call, Clock::now() + wait);
    if (!served.run.is_found || served.run.exit_code != 0) {
      const auto said = read_iperf(served.run.output);
      return print_failure(served.run, said ? "it served no test" : said.error().message);
    }
    waited_pct = std::max(waited_pct, served.waited_pct);
  }
  print_waited(waited_pct);
}

void connect_tcp(IperfCall call) {
  TcpFigures figures;
  double waited_pct = 0;
  for (const bool is_reverse : {false, true}) {
    call.is_reverse = is_reverse;
    const IperfRun tried = run_until_met(call);
    const auto told = tried.run.exit_code ? read_iperf(tried.run.output) : Error{};
    if (!told) return print_failure(tried.run, told.error().message);
    figures.gbps = is_reverse ? std::min(figures.gbps, told->gbps) : told->gbps;
    if (!is_reverse) figures.round_trip_us = told->round_trip_us;
    waited_pct = std::max(waited_pct, tried.waited_pct);
  }
  print_sample(number_of(tcp_metrics[0], figures.gbps));
  print_sample(figures.round_trip_us > 0 ? number_of(tcp_metrics[1], figures.round_trip_us)
                                         : no_number(tcp_metrics[1], "iperf3 told no round trip"));
  print_waited(waited_pct);
}

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

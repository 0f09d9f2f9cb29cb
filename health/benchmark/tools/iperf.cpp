#include "health/benchmark/tools/tools.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "health/benchmark/tools/sample_line.h"

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

}  // namespace muster

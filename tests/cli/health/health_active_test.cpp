#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/health/benchmark.h"
#include "cli/health/sources.h"
#include "launcher/agent/node/process_scan.h"
#include "launcher/wire/json_fields.h"
#include "scheduler/text/duration.h"
#include "tests/catch.h"
#include "tests/cli/recorded_node.h"

using namespace muster;

namespace {

HealthProfile with_floors(std::map<std::string, double> floors) {
  HealthProfile profile;
  profile.name = "site";
  profile.floors = std::move(floors);
  return profile;
}
ProbeFigures measured(std::vector<PerformanceSample> samples) {
  ProbeFigures figures;
  for (const PerformanceSample& one : samples) figures.took_ms[one.metric] = 5000;
  figures.samples = std::move(samples);
  return figures;
}
PerformanceSample number(const std::string& metric, double value, const std::string& device = "") {
  return {metric, device, value, "", false};
}
// At a time of its own, minutes after `boot`.
HostHealth judged(const ProbeFigures& figures, const HealthProfile& profile, HealthState& state,
                  int minute = 1) {
  ActiveMoment moment;
  moment.at.wall = from_ms(1'700'000'000'000 + minute * 60'000);
  moment.at.since_boot = std::chrono::minutes(60 + minute);
  moment.run = {moment.at.wall, "n17", "6f"};
  return judge_figures(figures, profile, moment, state);
}
CommonOptions quiet() {
  CommonOptions common;
  common.only_show_errors = true;
  return common;
}

// A process as a job starts them, for the life of this.
class SleepingRank {
 public:
  SleepingRank() : pid_(::fork()) {
    if (pid_ == 0) {
      const char* const argv[] = {"sleep", "60", nullptr};
      const char* const environment[] = {"MUSTER_JOB=j4", nullptr};
      ::execve("/bin/sleep", const_cast<char**>(argv), const_cast<char**>(environment));
      ::_exit(127);
    }
  }
  ~SleepingRank() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  SleepingRank(const SleepingRank&) = delete;
  // Until the new program's environment is there to be read.
  void await() const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!environment_entry(read_process_environment(pid_), "MUSTER_JOB") &&
           std::chrono::steady_clock::now() < until) {
      ::usleep(1000);
    }
  }

 private:
  pid_t pid_;
};

constexpr std::string_view stat_before =
    "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 50 0 25 400 25 0 0 0 0 0\ncpu1 50 0 25 400 25 0\nintr "
    "1\n";
constexpr std::string_view stat_after =
    "cpu  200 0 50 850 100 0 0 0 0 0\ncpu0 50 0 25 400 25 0 0 0 0 0\ncpu1 50 0 25 400 25 0\nintr "
    "1\n";

}  // namespace

TEST_CASE("figures above their floors pass, without one they are shown") {
  HealthState state;
  const HostHealth look =
      judged(measured({number("cpu_gemm_gflops", 312), number("stream_mb_per_s", 9000)}),
             with_floors({{"cpu_gemm_gflops", 300}}), state);
  REQUIRE(look.findings.size() == 1);
  CHECK(look.findings.front().check == "perf.cpu");
  CHECK(look.findings.front().status == "pass");
  CHECK(look.findings.front().duration_ms == 5000);
  CHECK(look.verdict.state == HealthExit::healthy);
  const std::string text = health_text(look, {});
  CHECK_THAT(text, ContainsSubstring("stream_mb_per_s"));
  CHECK_THAT(text, ContainsSubstring("n17 is ready"));
  const Document document = health_document(look);
  CHECK(document["figures"].size() == 2);
  CHECK(document["figures"][1]["value"] == 9000);
  CHECK(document["figures"][1]["unit"] == "MB/s");
  CHECK(document["verdict"]["state"] == "healthy");
}

TEST_CASE("one figure below its floor is believed, and drains where the profile enforces it") {
  HealthProfile profile = with_floors({{"h2d_gb_per_s", 48}});
  const auto slow =
      measured({number("h2d_gb_per_s", 55, "gpu0"), number("h2d_gb_per_s", 20, "gpu1")});
  HealthState observed;
  CHECK(judged(slow, profile, observed).verdict.state == HealthExit::healthy);
  profile.checks["perf.*"].mode = CheckMode::enforce;
  HealthState state;
  const HostHealth look = judged(slow, profile, state);
  CHECK(look.verdict.state == HealthExit::drained);
  CHECK(look.verdict.reason->starts_with("muster:node:perf.h2d_d2h:gpu1 "));
}

TEST_CASE("what was measured stands until it passed three times in ten minutes") {
  HealthProfile profile = with_floors({{"stream_mb_per_s", 9000}});
  profile.checks["perf.*"].mode = CheckMode::enforce;
  HealthState state;
  judged(measured({number("stream_mb_per_s", 10)}), profile, state, 0);
  const auto good = measured({number("stream_mb_per_s", 9900)});
  for (const int minute : {1, 2, 3}) {
    state = *read_versioned_json<HealthState>(versioned_json(state, state_version), state_version);
    const auto look = judged(good, profile, state, minute);
    CHECK(look.verdict.state == HealthExit::drained);
  }
  CHECK(judged(good, profile, state, 12).verdict.state == HealthExit::healthy);
}

TEST_CASE("other checks' faults are not told by a run of probes, and are kept") {
  HealthProfile profile = with_floors({{"stream_mb_per_s", 1}});
  profile.checks["host.oops"].mode = CheckMode::enforce;
  profile.required = {"gpu.count"};
  HealthState state;
  NodeHealth health(profile);
  HealthFinding oops = make_finding(*find_check("host.oops"), "", CheckStatus::fail);
  health.begin("6f", {from_ms(1'700'000'000'000), std::chrono::minutes(60)});
  health.take({oops}, {{from_ms(1'700'000'000'000), std::chrono::minutes(60)}, 0, {}});
  state.health = health.memory();
  const HostHealth look = judged(measured({number("stream_mb_per_s", 5)}), profile, state);
  CHECK(look.verdict.state == HealthExit::healthy);
  CHECK(NodeHealth(profile, state.health).verdict(from_ms(1'700'000'100'000)).is_drained());
}

TEST_CASE("a tool that is not installed is unknown, a matter of the node's setup") {
  HealthProfile profile = with_floors({{"p2p_gb_per_s", 335}});
  profile.required = {"perf.p2p"};
  HealthState state;
  const HostHealth look =
      judged(measured({{"p2p_gb_per_s", "", std::nullopt, "nvbandwidth is not installed", true}}),
             profile, state);
  REQUIRE(look.findings.size() == 1);
  CHECK(look.findings.front().status == "unknown");
  CHECK(look.findings.front().fault_class == "setup");
  CHECK(look.verdict.state == HealthExit::unclear);
  CHECK_THAT(health_text(look, {}), ContainsSubstring("is not installed"));
}

TEST_CASE("a host of which no benchmark told a number is not ready") {
  HealthState state;
  const HostHealth look =
      judged(measured({{"stream_mb_per_s", "", std::nullopt, "the benchmark reported nothing"}}),
             with_floors({{"stream_mb_per_s", 9000}}), state);
  CHECK(look.verdict.state == HealthExit::unclear);
  CHECK_THAT(health_text(look, {}), ContainsSubstring("n17 is unknown"));
}

TEST_CASE("busy processors are counted between two readings") {
  const auto before = processor_time(stat_before);
  const auto after = processor_time(stat_after);
  REQUIRE(before);
  REQUIRE(after);
  CHECK(after->processors == 2);
  CHECK(busy_processors(*before, *after) == Approx(1.0));
  CHECK(busy_processors(*after, *before) == 0);
  CHECK(busy_processors(*before, *before) == 0);
  for (const char* text : {"", "cpu", "cpu  ", "cpu  x 1\ncpu0 1\n", "cpu  1 2 3", "intr 1\n",
                           "cpu  99999999999999999999999 1\ncpu0 1\n"}) {
    CAPTURE(text);
    CHECK_FALSE(processor_time(text));
  }
}

TEST_CASE("a host with eight busy processors of two hundred is not idle") {
  CHECK(is_busy(8, 200));
  CHECK_FALSE(is_busy(0.7, 2));
  CHECK_FALSE(is_busy(2.5, 200));
}

TEST_CASE("probes of a node are named, and others refused") {
  CHECK(misnamed_probe({"cpu", "gpu-peer"}).empty());
  CHECK_THAT(misnamed_probe({"gpu-per"}), ContainsSubstring("did you mean 'gpu-peer'?"));
  CHECK_THAT(misnamed_probe({"tcp"}), ContainsSubstring("no benchmark 'tcp' of one node"));
}

TEST_CASE("the benchmarks that a profile has a floor for are run, and those that were named") {
  RecordedNode node;
  node.write();
  HealthSources sources(node.options());
  MeasureWanted wanted;
  wanted.force = true;
  wanted.program = {"/bin/sh", "-c", "echo cpu_gemm_gflops - 7; echo stream_mb_per_s - 8", "x"};
  const auto floors = measure_node(sources, with_floors({{"stream_mb_per_s", 1}}), wanted, quiet());
  REQUIRE(floors.samples.size() == 1);
  CHECK(floors.samples.front().metric == "stream_mb_per_s");
  wanted.only = {"cpu"};
  const auto named = measure_node(sources, with_floors({{"stream_mb_per_s", 1}}), wanted, quiet());
  REQUIRE(named.samples.size() == 1);
  CHECK(named.samples.front().value == 7);
  wanted.only = {"disk"};
  CHECK_THROWS_WITH(measure_node(sources, {}, wanted, quiet()), ContainsSubstring("names where"));
  wanted.only = {"gpu-none"};
  CHECK_THROWS_WITH(measure_node(sources, {}, wanted, quiet()), ContainsSubstring("gpu-none"));
  wanted.only = {};
  CHECK(measure_node(sources, {}, wanted, quiet()).samples.empty());
}

namespace {

// By which InfiniBand devices a node is measured: logins come to it by the first one, the second is
// an Ethernet port, the third a part of another that a guest has.
std::vector<std::string> devices_measured(HealthProfile profile) {
  const std::string device = "/sys/class/infiniband/mlx5_ib";
  RecordedNode node;
  node.node.set("/proc/net/route", "ib0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\n");
  node.node.set(device + "1/ports/1/link_layer", "Ethernet\n");
  node.node.set(device + "2/device/physfn/vendor", "0x15b3\n");
  node.write();
  HealthSources sources(node.options());
  profile.floors["ib_write_bw_gbps"] = 380;
  MeasureWanted wanted;
  wanted.force = true;
  wanted.program = {
      "/bin/sh", "-c",
      "for word; do case $word in mlx5*) echo ib_write_bw_gbps $word 390;; esac; done", "x"};
  const auto measured = measure_node(sources, profile, wanted, quiet());
  std::vector<std::string> devices;
  for (const PerformanceSample& one : measured.samples) {
    devices.push_back(one.device.substr(one.device.find("ib") + 2));
  }
  return devices;
}

}  // namespace

TEST_CASE("InfiniBand is measured with each device that jobs use") {
  using Devices = std::vector<std::string>;
  HealthProfile profile;
  profile.exclude.push_back({"perf.*", "mlx5_ib3", "a spare"});
  CHECK(devices_measured(profile) == Devices{"4", "5", "6", "7"});
  profile.exclude.clear();
  CHECK(devices_measured(profile) == Devices{"3", "4", "5", "6", "7"});
  // The profile decides which, and also takes one that logins share when it is named.
  profile.ib.ports = {"mlx5_ib0:1", "mlx5_ib[4-5]:1"};
  CHECK(devices_measured(profile) == Devices{"0", "4", "5"});
}

TEST_CASE("a host with a rank of a job is refused, unless it is forced") {
  RecordedNode node;
  node.write();
  HealthSources sources(node.options());
  MeasureWanted wanted;
  wanted.program = {"/bin/sh", "-c", "echo cpu_gemm_gflops - 7", "x"};
  wanted.only = {"cpu"};
  const SleepingRank rank;
  rank.await();
  CHECK_THROWS_AS(measure_node(sources, {}, wanted, quiet()), VerbEnd);
  CHECK_THAT(why_not_idle(sources), ContainsSubstring("of muster runs here"));
  wanted.force = true;
  CHECK_NOTHROW(measure_node(sources, {}, wanted, quiet()));
}

TEST_CASE("what is measured before a job is remembered nowhere: processors may be busy then") {
  HealthRunOptions options;
  BenchmarksAsked& asked = options.measured.emplace();
  options.state = "/state";
  CHECK(active_state_file(options, "n17") == "/state");
  asked.gate = true;
  CHECK_FALSE(active_state_file(options, "n17"));
  asked.gate = false;
  options.forget = true;
  CHECK_FALSE(active_state_file(options, "n17"));
}

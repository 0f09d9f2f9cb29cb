// Full load: what says that a node was slowed, and the program that looks for it.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>
#include <thread>

#include "health/active/burn_load.h"
#include "health/active/burn_probe.h"
#include "health/active/burn_rate.h"
#include "health/active/clock_tally.h"
#include "health/active/clock_watch.h"
#include "health/active/gpu_burn.h"
#include "health/active/throttle_watch.h"
#include "health/active/timed_passes.h"
#include "health/active/xid_tally.h"
#include "health/benchmark/command.h"
#include "health/benchmark/samples.h"
#include "tests/catch.h"
#include "tests/health/nvml_fixture.h"

using namespace muster;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

std::size_t declined(std::vector<double> rates) {
  const auto decline = rate_decline(rates, 10s);
  REQUIRE(decline);
  return decline->windows;
}

std::vector<double> steady(std::size_t count, double rate = 100) {
  return std::vector<double>(count, rate);
}

SourceFiles counters(const std::vector<std::pair<int, int>>& core_and_package) {
  SourceFiles files;
  int processor = 0;
  for (const auto& [core, package] : core_and_package) {
    const std::string at = "/sys/devices/system/cpu/cpu" + std::to_string(processor);
    files.add(at + "/thermal_throttle/core_throttle_count", std::to_string(core) + "\n");
    files.add(at + "/thermal_throttle/package_throttle_count", std::to_string(package) + "\n");
    files.add(at + "/topology/physical_package_id", std::to_string(processor / 2) + "\n");
    ++processor;
  }
  return files;
}

KernelLine line(std::uint64_t sequence, std::string text) {
  KernelLine one;
  one.sequence = sequence;
  one.text = std::move(text);
  return one;
}

const std::string xid_text =
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=7194, name=python, GPU has fallen off the bus.";

class NodeRoot {
 public:
  NodeRoot() {
    std::string path = fs::temp_directory_path() / "burn-XXXXXX";
    REQUIRE(::mkdtemp(path.data()) != nullptr);
    path_ = path;
    fs::create_directories(path_ / "bin");
    std::error_code is_elsewhere;
    fs::create_hard_link(MUSTER_PROBE, probe(), is_elsewhere);
    if (is_elsewhere) fs::copy_file(MUSTER_PROBE, probe());
  }
  ~NodeRoot() { fs::remove_all(path_); }
  fs::path path() const { return path_; }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((path_ / file).parent_path());
    // Whole, whoever reads it at that moment.
    std::ofstream(path_ / (file + ".new")) << text;
    fs::rename(path_ / (file + ".new"), path_ / file);
  }
  void append(const std::string& file, const std::string& text) const {
    std::ofstream(path_ / file, std::ios::app) << text;
  }
  void add_program(const std::string& script) const {
    write("bin/muster-gpu-probe", "#!/bin/sh\n" + script + "\n");
    fs::permissions(path_ / "bin/muster-gpu-probe", fs::perms::owner_all);
  }
  // The program for GPUs beside it is that of add_program(), or none.
  fs::path probe() const { return path_ / "bin/muster-probe"; }

 private:
  fs::path path_;
};

struct Started {
  pid_t pid = -1;
  int output = -1;
};

Started start(const fs::path& probe, std::vector<std::string> words) {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  words.insert(words.begin(), probe.string());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::cout.flush();
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    ::signal(SIGINT, SIG_DFL);
    ::dup2(ends[1], STDOUT_FILENO);
    ::setenv("PATH", "/usr/bin:/bin", 1);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  return {pid, ends[0]};
}

// What it printed; `meanwhile` is called several times a second until it ends.
ProbeOutput run(const NodeRoot& root, const std::vector<std::string>& words,
                const std::function<void()>& meanwhile) {
  const Started one = start(root.probe(), words);
  std::string text;
  char space[4096];
  pollfd waiting{one.output, POLLIN, 0};
  for (;;) {
    if (::poll(&waiting, 1, 100) == 0) {
      meanwhile();
      continue;
    }
    const ssize_t count = ::read(one.output, space, sizeof space);
    if (count <= 0) break;
    text.append(space, static_cast<std::size_t>(count));
  }
  ::close(one.output);
  int status = 0;
  ::waitpid(one.pid, &status, 0);
  CHECK(WIFEXITED(status));
  INFO(text);
  const ProbeOutput output = read_probe_output(text);
  CHECK(output.refused == 0);
  return output;
}

const PerformanceSample& sample(const ProbeOutput& output, const std::string& metric,
                                const std::string& device) {
  const auto found = std::ranges::find_if(output.samples, [&](const PerformanceSample& one) {
    return one.metric == metric && one.device == device;
  });
  INFO(metric << " " << device);
  REQUIRE(found != output.samples.end());
  return *found;
}

// Gone, or waiting for whoever has to take note of it.
bool has_ended(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return true;
  const std::size_t at = text.rfind(") ");
  return at == text.npos || text[at + 2] == 'Z' || text[at + 2] == 'X';
}

bool comes_true(const std::function<bool()>& holds, std::chrono::seconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

}  // namespace

TEST_CASE("a rate that stays is no decline, nor is one that falls for a moment") {
  CHECK(declined(steady(60)) == 0);
  auto rates = steady(60);
  rates[30] = rates[31] = 10;
  CHECK(declined(rates) == 0);
  for (std::size_t i = 0; i < 6; ++i) rates[i] = 500;  // before clocks have settled
  CHECK(declined(rates) == 0);
  for (double& rate : rates) rate *= 0.91;
  CHECK(declined(rates) == 0);
}

TEST_CASE("a rate that falls by more than a tenth and stays there is a decline") {
  auto rates = steady(60);
  for (std::size_t i = 40; i < 44; ++i) rates[i] = 89;
  CHECK(declined(rates) == 4);
  const auto decline = rate_decline(rates, 10s);
  CHECK(decline->first == 40);
  CHECK(decline_text(*decline, 10s) ==
        "89 % of the rate at the start, in 4 windows of 10 s from 400 s on");
  for (std::size_t i = 40; i < 60; ++i) rates[i] = 0;
  CHECK(declined(rates) == 20);
  for (std::size_t i = 40; i < 60; ++i) rates[i] = 91;
  CHECK(declined(rates) == 0);
}

TEST_CASE("of a load that was too short or did nothing no decline can be told") {
  for (std::size_t count = 0; count < 11; ++count) CHECK_FALSE(rate_decline(steady(count), 10s));
  CHECK(rate_decline(steady(11), 10s));
  CHECK_FALSE(rate_decline(steady(60), 1s));
  CHECK_FALSE(rate_decline(steady(60, 0), 10s));
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<double> rates(random() % 100);
    for (double& rate : rates) rate = static_cast<double>(random() % 1000);
    const auto decline = rate_decline(rates, 10s);
    if (decline) CHECK(decline->windows < rates.size());
  }
}

TEST_CASE("windows are a second at least and ten at most, and a late look does not stretch them") {
  CHECK(burn_window(6s) == 1s);
  CHECK(burn_window(5min) == 5s);
  CHECK(burn_window(120min) == 10s);
  const auto begun = std::chrono::steady_clock::now();
  RateWindows rates(1s, begun);
  rates.add(begun + 1005ms, 1005);
  rates.add(begun + 1500ms, 1500);
  rates.add(begun + 2000ms, 2000);
  rates.add(begun + 3001ms, 3001);
  REQUIRE(rates.per_second().size() == 3);
  for (const double rate : rates.per_second()) CHECK(std::abs(rate - 1000) < 1e-6);
}

TEST_CASE("throttle counts that grow are told by core and package") {
  ThrottleWatch watch;
  watch.add(counters({{5, 7}, {0, 7}, {0, 1}}));
  CHECK(watch.has_counters());
  CHECK(watch.events() == 0);
  watch.add(counters({{5, 7}, {1, 8}, {0, 1}}));
  watch.add(counters({{5, 9}, {3, 8}, {0, 1}}));
  CHECK(watch.events() == 5);
  CHECK(watch.text() == "cpu 1 core 3 times, package 0 2 times");
  CHECK(watch.unwatched().empty());
  // A processor that was switched off and on begins anew.
  watch.add(counters({{0, 9}, {3, 8}, {0, 1}}));
  CHECK(watch.events() == 5);
}

TEST_CASE("throttle counts that go away, or cannot be read, are not watched") {
  ThrottleWatch watch;
  watch.add(counters({{0, 0}, {0, 0}}));
  watch.add(counters({{0, 0}}));
  CHECK_THAT(watch.unwatched(), ContainsSubstring("cpu 1 core went away"));
  ThrottleWatch none;
  none.add({});
  none.add({});
  CHECK_FALSE(none.has_counters());
  SourceFiles bad = counters({{0, 0}});
  bad.add("/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count",
          FileReading{"", "Input/output error", false});
  ThrottleWatch unread;
  unread.add(bad);
  CHECK_THAT(unread.unwatched(), ContainsSubstring("Input/output error"));
}

TEST_CASE("Xids of the time of the load count, those before it and lines of programs do not") {
  XidTally tally;
  tally.skip(std::vector{line(10, xid_text)});
  CHECK(tally.count() == 0);
  KernelLine of_program = line(12, xid_text);
  of_program.is_from_kernel = false;
  tally.add(std::vector{line(10, xid_text), line(11, "usb 1-1: new device"), of_program});
  CHECK(tally.count() == 0);
  CHECK(tally.lost_lines() == 0);
  tally.add(std::vector{line(13, "first\n" + xid_text), line(14, xid_text),
                        line(15,
                             "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, "
                             "Link 32 egress non-posted PRIV error (First)")});
  CHECK(tally.count() == 3);
  CHECK(tally.text() == "Xid 79 of 0000:3b:00.0; SXid 12028 of 0000:c1:00.0");
  tally.add(std::vector{line(20, "more")});
  CHECK(tally.lost_lines() == 4);
}

TEST_CASE("clocks that the hardware lowers for three seconds in a row count") {
  const auto seconds_of = [](const std::vector<std::uint64_t>& reasons) {
    ClockTally tally;
    for (const std::uint64_t one : reasons) tally.add({0, 0, one, 80});
    return *tally.samples(reasons.size()).front().value;
  };
  CHECK(seconds_of({0x1, 0x4, 0x20, 0}) == 0);
  CHECK(seconds_of({0x40, 0x40, 0, 0x8, 0x80}) == 0);
  CHECK(seconds_of({0x40, 0x8, 0x80, 0, 0x40}) == 3);
  CHECK(seconds_of({0x44, 0x40, 0x40, 0x40, 0}) == 4);
  ClockTally hot;
  for (const int celsius : {70, 91, 88}) hot.add({3, 0, 0x48, celsius});
  const PerformanceSample sample = hot.samples(3).front();
  CHECK(sample.device == "gpu3");
  CHECK(sample.note == "hardware slowdown, hardware thermal, at most 91 C");
}

TEST_CASE("clocks that were told too seldom, or of too few GPUs, are unknown") {
  ClockTally tally;
  for (int i = 0; i < 9; ++i) tally.add({0, 0, 0, {}});
  CHECK(tally.samples(10).front().value == 0.0);
  CHECK_FALSE(tally.samples(11).front().value);
  tally.add({1, 15, 0, {}});
  CHECK_THAT(tally.samples(9).back().error, ContainsSubstring("0 of 9 seconds: "));
  CHECK(clock_samples(tally, {9, 2, true, ""}).size() == 2);
  CHECK(clock_samples(tally, {9, 3, true, ""}).back().error == "the driver told of 2 of 3 GPUs");
  CHECK(clock_samples(tally, {9, 2, true, "it hung"}).back().error == "it hung");
  const auto idle = clock_samples(tally, {9, 2, false, ""});
  REQUIRE(idle.size() == 1);
  CHECK(idle[0].error == "the GPUs had no load");
}

TEST_CASE("the driver is asked by a child, and a driver that hangs takes only the child with it") {
  ::setenv(nvml_library_variable, fake_nvml_path().c_str(), 1);
  {
    const FakeNvml fake("count 2\ngpu0.clocks.reasons 0x1\ngpu1.clocks.reasons 0x40\n");
    ClockWatch watch;
    CHECK(comes_true(
        [&] {
          watch.take();
          return watch.tally().samples(1).size() == 2;
        },
        20s));
    CHECK(watch.error().empty());
  }
  {
    const FakeNvml fake("count 1\nnvmlDeviceGetCurrentClocksEventReasons.hang 1\n");
    ClockWatch watch;
    watch.take();
    CHECK(watch.tally().samples(1).empty());
  }
  ::setenv(nvml_library_variable, "/no/such/library", 1);
  ClockWatch none;
  CHECK(comes_true(
      [&] {
        none.take();
        return !none.error().empty();
      },
      20s));
  CHECK_THAT(none.error(), ContainsSubstring("/no/such/library"));
  ::unsetenv(nvml_library_variable);
}

TEST_CASE("what the program for GPUs does not tell is unknown") {
  const auto said = [](const std::string& text, int code, int gpus) {
    ToolRun run;
    run.exit_code = code;
    run.output = text;
    return gpu_burn_samples(run, gpus);
  };
  const std::string two = "burn_slow_windows gpu0 0\nburn_slow_windows gpu1 3 fail 80 %\n";
  CHECK(said(two, 0, 2).size() == 2);
  CHECK(said(two, 0, 2)[1].value == 3.0);
  CHECK(said(two, 0, 3).back().error == "muster-gpu-probe told of 2 of 3 GPUs");
  CHECK(said(two, 139, 2).back().error == "muster-gpu-probe ended with 139");
  CHECK(said("burn_slow_windows cpu 5 fail no\nburn_xids driver 0\nrubbish\n", 0, 1).size() == 1);
  CHECK(said("burn_slow_windows - error cudaGetDeviceCount: no device\n", 0, 8).size() == 1);
  ToolRun missing;
  missing.is_found = false;
  CHECK(gpu_burn_samples(missing, 8).front().is_absent);
  ToolRun hung;
  CHECK_THAT(gpu_burn_samples(hung, 1).front().error, ContainsSubstring("did not end in time"));
}

TEST_CASE("a load ends at once, and knows the processors that it could not use") {
  std::vector<int> processors = usable_processors();
  processors.push_back(16'000);
  BurnLoad load(processors);
  CHECK(comes_true([&] { return load.products() > 0; }, 60s));
  load.stop();
  CHECK(load.unreached() == std::vector<int>{16'000});
  const auto done = load.products();
  load.stop();
  CHECK(load.products() == done);
  CHECK(load.error().empty());
}

TEST_CASE("throttling, lowered clocks and an Xid under full load are told") {
  const NodeRoot root;
  const std::string counter = "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count";
  root.write(counter, "17\n");
  const std::string old_line = "4,100,5000000,-;" + xid_text + "\n";
  root.write("dev/kmsg", old_line);
  root.add_program("echo burn_slow_windows gpu0 0; echo burn_slow_windows gpu1 3 fail '80 %'");
  ::setenv(nvml_library_variable, fake_nvml_path().c_str(), 1);
  const FakeNvml fake("count 2\ngpu0.clocks.reasons 0x4\ngpu1.clocks.reasons 0x48\n");
  int ticks = 0;
  const auto burnt =
      run(root, {"burn", "--seconds", "5", "--gpus", "2", "--root", root.path().string()}, [&] {
        ++ticks;
        root.write(counter, std::to_string(17 + ticks) + "\n");
        root.append("dev/kmsg",
                    "4," + std::to_string(100 + ticks) + ",6000000,-;" + xid_text + "\n");
      });
  ::unsetenv(nvml_library_variable);
  const PerformanceSample throttled = sample(burnt, "burn_throttle_events", "cpu");
  CHECK(throttled.value.value_or(0) > 0);
  CHECK_THAT(throttled.note, ContainsSubstring("cpu 0 core"));
  CHECK(sample(burnt, "burn_xids", "driver").value.value_or(0) > 0);
  CHECK(sample(burnt, "burn_xids", "driver").note == "Xid 79 of 0000:3b:00.0");
  CHECK(sample(burnt, "burn_slow_windows", "gpu0").value == 0.0);
  CHECK(sample(burnt, "burn_slow_windows", "gpu1").note == "80 %");
  CHECK(sample(burnt, "burn_slowed_clocks_s", "gpu1").value.value_or(0) >= 3);
  CHECK(sample(burnt, "burn_slowed_clocks_s", "gpu0").value.value_or(0) == 0);
  CHECK(sample(burnt, "burn_slow_windows", "cpu").metric == burn_rate_metric);
  const auto findings = judge_samples({}, burnt.samples, {});
  CHECK(findings.size() == burnt.samples.size());
  CHECK(findings[0].check == "perf.burn");
  CHECK(findings[0].status == CheckStatus::fail);
  CHECK(text_of(findings[0].severity) == "drain>rma");
}

TEST_CASE("a node that shows nothing of throttling or of its log is unknown, not well") {
  const NodeRoot root;
  const auto burnt =
      run(root, {"burn", "--seconds", "2", "--gpus", "2", "--root", root.path().string()}, [] {});
  CHECK(sample(burnt, "burn_throttle_events", "cpu").is_absent);
  CHECK_THAT(sample(burnt, "burn_xids", "driver").error, ContainsSubstring("cannot be read"));
  CHECK_FALSE(sample(burnt, "burn_slow_windows", "cpu").value);
  CHECK_THAT(sample(burnt, "burn_slow_windows", "").error, ContainsSubstring("not built"));
  CHECK(sample(burnt, "burn_slowed_clocks_s", "").error == "the GPUs had no load");
  for (const HealthFinding& finding : judge_samples({}, burnt.samples, {}))
    CHECK(finding.status == CheckStatus::unknown);
}

TEST_CASE("a quiet node with all its sources passes what it was watched for") {
  const NodeRoot root;
  root.write("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "17\n");
  root.write("dev/kmsg", "4,100,5000000,-;" + xid_text + "\n");
  const auto burnt = run(root, {"burn", "--seconds", "2", "--root", root.path().string()}, [] {});
  CHECK(burnt.samples.size() == 3);
  CHECK(sample(burnt, "burn_xids", "driver").value == 0.0);
  // Where this process may use all processors.
  if (usable_processors() == online_processors())
    CHECK(sample(burnt, "burn_throttle_events", "cpu").value == 0.0);
}

TEST_CASE("Ctrl-C ends the load at once, and that of the GPUs with it") {
  const NodeRoot root;
  root.add_program("echo $$ >" + (root.path() / "pid.new").string() + "; mv " +
                   (root.path() / "pid.new").string() + " " + (root.path() / "pid").string() +
                   "; exec sleep 600");
  const Started one = start(root.probe(), {"burn", "--gpus", "1", "--root", root.path().string()});
  pid_t program = 0;
  CHECK(comes_true(
      [&] {
        std::ifstream file(root.path() / "pid");
        return static_cast<bool>(file >> program);
      },
      30s));
  const auto asked = std::chrono::steady_clock::now();
  ::kill(one.pid, SIGINT);
  int status = 0;
  ::waitpid(one.pid, &status, 0);
  CHECK(std::chrono::steady_clock::now() - asked < 5s);
  CHECK(WIFSIGNALED(status));
  CHECK(comes_true([&] { return has_ended(program); }, 10s));
  ::close(one.output);
}

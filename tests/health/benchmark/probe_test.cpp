// Words in, lines out: each probe in a process of its own, as it is run.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "health/benchmark/command.h"
#include "health/benchmark/samples.h"
#include "health/read/tool_process.h"
#include "tests/catch.h"

using namespace muster;

namespace {

struct Ran {
  int code = -1;
  ProbeOutput output;
};

// A directory that is gone afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string path = std::filesystem::temp_directory_path() / "probe-XXXXXX";
    REQUIRE(::mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }
  // A tool that says this and ends with this code.
  void add_tool(const std::string& name, const std::string& script) const {
    const auto file = path_ / name;
    std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

 private:
  std::filesystem::path path_;
};

Ran run(const std::vector<std::string>& words, const std::string& path = "") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  std::cout.flush();  // else the benchmark says it, too
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    if (!path.empty()) ::setenv("PATH", path.c_str(), 1);
    ::_exit(run_probe(words));
  }
  ::close(ends[1]);
  std::string text;
  char space[4096];
  for (ssize_t count = 0; (count = ::read(ends[0], space, sizeof space)) > 0;)
    text.append(space, static_cast<std::size_t>(count));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, read_probe_output(text)};
}

const char* bandwidth_tool =
    "echo ' #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]'\n"
    "echo ' 1048576    232540           0.00               390.12         0.046506'";
const char* latency_tool =
    "echo ' #bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] "
    "99% percentile[usec] 99.9% percentile[usec]'\n"
    "echo ' 2 20000 1.02 6.12 1.05 1.06 0.06 1.88 3.12'";

}  // namespace

TEST_CASE("words that make no sense are a wrong use") {
  const std::vector<std::vector<std::string>> wrong{
      {},
      {"speed"},
      {"cpu", "now"},
      {"cpu", "--seconds"},
      {"cpu", "--seconds", "0"},
      {"cpu", "--seconds", "soon"},
      {"cpu", "--mib", "5"},
      {"cpu-sdc", "now"},
      {"cpu-sdc", "--seconds", "0"},
      {"cpu-sdc", "--seconds", "7201"},
      {"memory", "--array-mib", "8"},
      {"gpu-host", "now"},
      {"gpu-nccl", "--gpus", "65"},
      {"disk"},
      {"disk", "/", "/tmp"},
      {"dcgm", "now"},
      {"dcgm", "--level", "0"},
      {"dcgm", "--level", "5"},
      {"tcp-serve"},
      {"tcp-serve", "--port", "70000"},
      {"tcp-connect", "host"},
      {"tcp-connect", "-host", "--port", "7001"},
      {"tcp-connect", "host", "--port", "7001", "--streams", "65"},
      {"ib-loop", "mlx5_0"},
      {"ib-loop", "mlx5_0", "-d"},
      {"ib-pair-serve"},
      {"ib-pair-connect", "host"}};
  for (const auto& words : wrong) {
    INFO((words.empty() ? "" : words.front()) << " " << words.size());
    const Ran ran = run(words);
    CHECK(ran.code == 2);
    CHECK(ran.output.samples.empty());
  }
}

TEST_CASE("what cannot be measured is said in lines too") {
  const Ran ran = run({"disk", "/no/such/directory"});
  CHECK(ran.code == 0);
  CHECK(ran.output.refused == 0);
  REQUIRE(ran.output.samples.size() == 2);
  CHECK_THAT(ran.output.samples[0].error, ContainsSubstring("/no/such/directory"));
}

TEST_CASE("each benchmark whose tool is not installed says which package has it") {
  const TemporaryFolder empty;
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows{
      {{"cpu"}, "stress-ng is not installed (package stress-ng)"},
      {{"memory"}, "stress-ng is not installed (package stress-ng)"},
      {{"cpu-sdc"}, "stress-ng is not installed (package stress-ng)"},
      {{"dcgm"}, "dcgmi is not installed (package datacenter-gpu-manager)"},
      {{"tcp-serve", "--port", "7001"}, "iperf3 is not installed (package iperf3)"},
      {{"tcp-connect", "localhost", "--port", "7001"}, "iperf3 is not installed (package iperf3)"},
      {{"gpu-host"}, "nvbandwidth is not installed (package nvbandwidth of NVIDIA's repository)"},
      {{"gpu-nccl"}, "all_reduce_perf is not installed (package nccl-tests of NVIDIA)"},
      {{"ib-loop", "mlx5_0", "mlx5_1"}, "ib_write_bw is not installed (package perftest)"},
      {{"ib-pair-serve", "mlx5_0", "--port", "7001"},
       "ib_write_bw is not installed (package perftest)"}};
  for (const auto& [words, why] : rows) {
    INFO(words.front());
    const Ran ran = run(words, empty.path());
    CHECK(ran.code == 0);
    CHECK(ran.output.refused == 0);
    REQUIRE_FALSE(ran.output.samples.empty());
    for (const PerformanceSample& one : ran.output.samples) {
      CHECK(one.is_absent);
      CHECK(one.error == why);
    }
  }
}

TEST_CASE("two nodes measure TCP each way with iperf3, where it is installed") {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  if (!ToolProcess({"iperf3", "--version"}).wait(until).is_found) return;
  const pid_t serving = ::fork();
  REQUIRE(serving >= 0);
  if (serving == 0) {
    ::close(STDOUT_FILENO);
    ::_exit(run_probe({"tcp-serve", "--port", "18911", "--address", "127.0.0.1"}));
  }
  const Ran ran = run({"tcp-connect", "127.0.0.1", "--port", "18911", "--seconds", "2"});
  CHECK(::waitpid(serving, nullptr, 0) == serving);
  CHECK(ran.output.refused == 0);
  REQUIRE(ran.output.samples.size() == 2);
  INFO(ran.output.samples[0].error);
  CHECK(ran.output.samples[0].value.value_or(0) > 0.01);
  CHECK(ran.output.samples[1].metric == "tcp_latency_us");
  CHECK(ran.output.samples[1].value.value_or(0) > 0);
}

TEST_CASE("an iperf3 that writes no report is told by what it said") {
  const TemporaryFolder tools;
  tools.add_tool("iperf3", "echo 'iperf3: libiperf.so.0: no such file' >&2; exit 127");
  const Ran ran = run({"tcp-serve", "--port", "7001"}, tools.path());
  REQUIRE(ran.output.samples.size() == 2);
  for (const PerformanceSample& one : ran.output.samples)
    CHECK(one.error == "iperf3 ended with 127: iperf3: libiperf.so.0: no such file");
}

TEST_CASE("tools are run for each HCA, and their tables become numbers") {
  const TemporaryFolder tools;
  tools.add_tool("ib_write_bw", bandwidth_tool);
  tools.add_tool("ib_write_lat", latency_tool);
  const std::string path = tools.path() + ":/usr/bin:/bin";
  const Ran loop = run({"ib-loop", "mlx5_0", "mlx5_1", "--gpus", "2"}, path);
  CHECK(loop.output.refused == 0);
  REQUIRE(loop.output.samples.size() == 2);
  CHECK(loop.output.samples[0].device == "mlx5_0:1");
  CHECK(loop.output.samples[1].device == "mlx5_1:1");
  CHECK(loop.output.samples[1].metric == "ib_write_bw_gbps");
  CHECK(loop.output.samples[1].value == 390.12);
  const Ran pair = run({"ib-pair-connect", "n2", "mlx5_0", "--port", "7001"}, path);
  REQUIRE(pair.output.samples.size() == 2);
  CHECK(pair.output.samples[0].metric == "ib_write_bw_host_gbps");
  CHECK(pair.output.samples[1].metric == "ib_latency_p99_us");
  CHECK(pair.output.samples[1].value == 1.88);
  const Ran serving = run({"ib-pair-serve", "mlx5_0", "--port", "7001"}, path);
  CHECK(serving.code == 0);
  CHECK(serving.output.samples.empty());
}

TEST_CASE("the diagnostics of DCGM are run at a level, and tests that fail name their GPU") {
  const TemporaryFolder tools;
  const std::string path = tools.path() + ":/usr/bin:/bin";
  const auto said = [&](const std::string& script, std::vector<std::string> words = {"dcgm"}) {
    tools.add_tool("dcgmi", script);
    const Ran ran = run(words, path);
    CHECK(ran.code == 0);
    CHECK(ran.output.refused == 0);
    REQUIRE(ran.output.samples.size() == 1);
    CHECK(ran.output.samples[0].metric == "dcgm_failed_tests");
    return ran.output.samples[0];
  };
  const std::string report =
      R"(echo '{"DCGM Diagnostic": {"test_categories": [{"category": "Stress", "tests": [
      {"name": "memtest", "results": [{"gpu_id": "3", "status": "'$status'"}]}]}]}}')";
  CHECK(said("status=Pass; " + report).value == 0.0);
  CHECK(said("status=Pass; " + report).device == "gpu3");
  const PerformanceSample failed = said("status=Fail; " + report + "; exit 226");
  CHECK(failed.value == 1.0);
  CHECK(failed.device == "gpu3");
  CHECK(failed.note == "memtest failed");
  CHECK_FALSE(failed.is_slight);
  CHECK(said("status=Warn; " + report).is_slight);
  const std::string echo = "status=Fail; [ \"$*\" = 'diag -r 2 -j' ] || status=Pass; ";
  CHECK(said(echo + report, {"dcgm", "--level", "2"}).value == 1.0);
  CHECK(said(echo + report).value == 0.0);
  CHECK(said("status=Pass; " + report + "; exit 3").error ==
        "dcgmi ended with 3, though no test failed");
  CHECK_THAT(said("echo rubbish; exit 1").error, ContainsSubstring("ended with 1: rubbish"));
  CHECK_THAT(said("head -c 3000000 /dev/zero").error, ContainsSubstring("too long"));
}

TEST_CASE("a dcgmi that hangs is asked to end, so that it stops what it began") {
  const TemporaryFolder tools;
  const std::string asked = tools.path() + "/asked";
  tools.add_tool("dcgmi", "trap 'echo > " + asked + "; kill $!; exit 0' TERM\nsleep 60 &\nwait");
  const Ran ran = run({"dcgm", "--seconds", "3"}, tools.path() + ":/usr/bin:/bin");
  REQUIRE(ran.output.samples.size() == 1);
  CHECK(ran.output.samples[0].error == "dcgmi did not end within 3 s");
  CHECK(std::filesystem::exists(asked));
}

TEST_CASE("options stand anywhere among the names, and once count") {
  const auto words = ProbeWords::read({"a", "--port", "7", "b"}, {"--port"});
  REQUIRE(words);
  CHECK(words->names() == std::vector<std::string>{"a", "b"});
  CHECK(words->text("--port") == "7");
  CHECK(words->text("--other").empty());
  CHECK(words->number("--port", 1, 1, 9) == 7);
  CHECK(words->number("--other", 1, 1, 9) == 1);
  CHECK_FALSE(words->number("--port", 1, 1, 6));
  CHECK_FALSE(ProbeWords::read({"--speed", "7"}, {"--port"}));
  CHECK_FALSE(ProbeWords::read({"--port"}, {"--port"}));
}

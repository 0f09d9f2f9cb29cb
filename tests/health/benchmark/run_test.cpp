#include "health/benchmark/plan.h"

#include <algorithm>
#include <chrono>

#include "tests/catch.h"

using namespace muster;
using std::chrono::seconds;

namespace {

// A plan whose words are a shell's: what a probe prints is what the script does.
PlannedProbe scripted(const std::string& script, std::vector<std::string> metrics,
                      seconds killed_after = seconds(20)) {
  PlannedProbe probe;
  probe.spec = find_probe("cpu");
  probe.words = {script};
  probe.metrics = std::move(metrics);
  probe.time = seconds(1);
  probe.killed_after = killed_after;
  return probe;
}
ProbeFigures run(std::vector<PlannedProbe> probes) {
  ProbePlan plan;
  plan.probes = std::move(probes);
  return run_probes(plan, {{"/bin/sh", "-c"}, {}});
}
const PerformanceSample& sample(const ProbeFigures& figures, const std::string& metric) {
  const auto found = std::ranges::find(figures.samples, metric, &PerformanceSample::metric);
  REQUIRE(found != figures.samples.end());
  return *found;
}

}  // namespace

TEST_CASE("probes run one after the other, and their numbers are those that were planned") {
  const ProbeFigures figures =
      run({scripted("echo cpu_gemm_gflops - 312.5; echo stream_mb_per_s - 1", {"cpu_gemm_gflops"}),
           scripted("echo stream_mb_per_s - 9000", {"stream_mb_per_s"})});
  CHECK(figures.samples.size() == 2);
  CHECK(sample(figures, "cpu_gemm_gflops").value == 312.5);
  CHECK(sample(figures, "stream_mb_per_s").value == 9000);
  CHECK(figures.took_ms.size() == 2);
  CHECK(figures.strange.empty());
}

TEST_CASE("a probe that hangs is killed at its limit, and keeps what it had said") {
  const auto began = std::chrono::steady_clock::now();
  const ProbeFigures figures = run({scripted("echo h2d_gb_per_s gpu0 50; exec sleep 60",
                                             {"h2d_gb_per_s", "d2h_gb_per_s"}, seconds(1)),
                                    scripted("echo stream_mb_per_s - 9000", {"stream_mb_per_s"})});
  CHECK(std::chrono::steady_clock::now() - began < seconds(30));
  CHECK(sample(figures, "h2d_gb_per_s").value == 50);
  CHECK(sample(figures, "h2d_gb_per_s").device == "gpu0");
  CHECK_FALSE(sample(figures, "d2h_gb_per_s").value);
  CHECK(sample(figures, "d2h_gb_per_s").error == "the benchmark was killed after 1 s");
  CHECK(sample(figures, "stream_mb_per_s").value == 9000);
}

TEST_CASE("a metric is not whole when its probe did not end well, or told of too few devices") {
  const auto said = [](const std::string& script, int devices = 0) {
    PlannedProbe probe = scripted(script, {"h2d_gb_per_s", "d2h_gb_per_s"},
                                  seconds(script.ends_with("60") ? 1 : 20));
    probe.devices = devices;
    std::string text;
    for (const PerformanceSample& one : run({probe}).samples) {
      text += one.metric.substr(0, 3) + one.device + (one.value ? "" : ": " + one.error) + "\n";
    }
    return text;
  };
  const std::string all = "echo h2d_gb_per_s gpu0 50; echo d2h_gb_per_s gpu0 50; ";
  CHECK(said(all) == "h2dgpu0\nd2hgpu0\n");
  CHECK(said(all + "exec sleep 60") ==
        "h2dgpu0\nd2hgpu0\nh2d: the benchmark was killed after 1 s\n"
        "d2h: the benchmark was killed after 1 s\n");
  CHECK(said(all + "exit 3") ==
        "h2dgpu0\nd2hgpu0\nh2d: the benchmark ended with 3\nd2h: the benchmark ended with 3\n");
  CHECK(said("echo h2d_gb_per_s - 50; exit 3") == "h2d\nd2h: the benchmark ended with 3\n");
  CHECK(said(all, 1) == "h2dgpu0\nd2hgpu0\n");
  CHECK(said(all + "echo h2d_gb_per_s gpu1 50", 2) ==
        "h2dgpu0\nd2hgpu0\nh2dgpu1\nd2h: the benchmark reported 1 of 2 devices\n");
}

TEST_CASE("a probe that fails says why where a number is missing") {
  const ProbeFigures figures = run({scripted("echo 'no room' >&2; exit 3", {"fio_read_mb_per_s"}),
                                    scripted("exit 0", {"stream_mb_per_s"}),
                                    scripted("kill -SEGV $$", {"cpu_gemm_gflops"})});
  CHECK(sample(figures, "fio_read_mb_per_s").error == "the benchmark ended with 3: no room");
  CHECK(sample(figures, "stream_mb_per_s").error == "the benchmark reported nothing for it");
  CHECK(sample(figures, "cpu_gemm_gflops").error == "the benchmark ended with 139");
}

TEST_CASE("a program that is not there, and lines that are none of a probe, are told") {
  ProbePlan plan;
  plan.probes = {scripted("cpu", {"cpu_gemm_gflops"})};
  const ProbeFigures absent = run_probes(plan, {{"/no/such/muster"}, {}});
  CHECK_THAT(sample(absent, "cpu_gemm_gflops").error, ContainsSubstring("could not be started"));
  const ProbeFigures strange =
      run({scripted("echo hello; echo cpu_gemm_gflops - 1", {"cpu_gemm_gflops"})});
  REQUIRE(strange.strange.size() == 1);
  CHECK_THAT(strange.strange.front(),
             ContainsSubstring("1 lines are not from a benchmark, as 'hello'"));
}

TEST_CASE("what the node cannot measure is among the figures, and each probe is announced") {
  ProbePlan plan;
  plan.probes = {scripted("echo cpu_gemm_gflops - 1", {"cpu_gemm_gflops"})};
  plan.impossible = {{"p2p_gb_per_s", "", std::nullopt, "the node shows no GPU", true}};
  std::vector<std::string> told;
  const ProbeFigures figures = run_probes(plan, {{"/bin/sh", "-c"}, [&](const PlannedProbe& one) {
                                                   told.emplace_back(one.spec->name);
                                                 }});
  CHECK(told == std::vector<std::string>{"cpu"});
  CHECK(sample(figures, "p2p_gb_per_s").is_absent);
}

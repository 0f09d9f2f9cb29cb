#include "health/benchmark/tools/tools.h"

#include <cmath>

#include "tests/health/benchmark/tools/tool_output.h"
#include "tests/health/ended_tool.h"

using namespace muster;

namespace {

// Of stress-ng 0.15.06, on two processors that others used as well.
const std::string matrix = "stress-ng-0.15-matrix.yaml";
const std::string stream = "stress-ng-0.15-stream.yaml";

PerformanceSample only(StressKind kind, const ToolRun& run) {
  const auto samples = stress_ng_samples({kind, 2}, run);
  REQUIRE(samples.size() == 1);
  return samples.front();
}

}  // namespace

TEST_CASE("stress-ng loads each processor, verifies, and writes its metrics as YAML") {
  using Words = std::vector<std::string>;
  CHECK(stress_ng_argv({StressKind::matrix, 96, std::chrono::seconds(5)}) ==
        Words{"stress-ng", "--timeout", "5s", "--metrics", "--verify", "--temp-path", "/tmp",
              "--yaml", "/dev/stdout", "--matrix", "96", "--matrix-method", "prod", "--matrix-size",
              "256"});
  CHECK(stress_ng_argv({StressKind::stream, 2, std::chrono::seconds(5)}).back() ==
        "--stream-l3-size=16m");
  const Words verify = stress_ng_argv({StressKind::verify, 2, std::chrono::seconds(60)});
  CHECK(Words(verify.end() - 6, verify.end()) ==
        Words{"--cpu", "2", "--matrix", "2", "--vecmath", "2"});
}

TEST_CASE("products of matrices are operations, and rates of a processor are those of all") {
  const auto products = only(StressKind::matrix, ended(0, tool_output(matrix)));
  CHECK(products.metric == "cpu_gemm_gflops");
  CHECK(products.value == Approx(18.461427 * 2 * 256 * 256 * 256 / 1e9));
  const auto bytes = only(StressKind::stream, ended(0, tool_output(stream)));
  CHECK(bytes.metric == "stream_mb_per_s");
  CHECK(bytes.value == Approx(2 * (1341.593510 + 894.395674)));
  // As 0.18 names them.
  std::string later =
      with(tool_output(stream), "memory-read-rate-mb-per-sec", "mb-per-sec-memory-read-rate");
  later = with(later, "memory-write-rate-mb-per-sec", "mb-per-sec-memory-write-rate");
  CHECK(only(StressKind::stream, ended(0, later)).value == bytes.value);
}

TEST_CASE("a result that stress-ng finds wrong is a fault of the processors") {
  const std::string yaml = tool_output(matrix);
  CHECK(only(StressKind::verify, ended(0, yaml)).value == 0.0);
  CHECK_FALSE(only(StressKind::verify, ended(0, "")).value);  // it verified nothing
  // Synthetic, in the form of its messages.
  const auto wrong =
      only(StressKind::verify, ended(2, yaml,
                                     "stress-ng: info:  [41] dispatching hogs: 2 matrix\n"
                                     "stress-ng: fail:  [42] matrix: data difference in prod\n"
                                     "stress-ng: fail:  [42] matrix: data difference in prod\n"
                                     "stress-ng: fail:  [43] cpu: pi calculation is wrong\n"));
  CHECK(wrong.metric == "cpu_sdc_wrong_products");
  CHECK(wrong.value == 2.0);
  CHECK(wrong.note == "matrix: data difference in prod");
  // A load that is wrong has no rate.
  CHECK_FALSE(only(StressKind::matrix, ended(2, yaml, "stress-ng: fail:  [42] x")).value);
  CHECK_FALSE(only(StressKind::verify, ended(2, yaml, "no memory")).value);
  CHECK_FALSE(only(StressKind::verify, ended(1, yaml, "stress-ng: fail:  [42] x")).value);
}

TEST_CASE("where stress-ng is missing, hangs or says no number the figure is unknown") {
  const auto absent = only(StressKind::matrix, not_installed());
  CHECK(absent.is_absent);
  CHECK(absent.error == "stress-ng is not installed (package stress-ng)");
  CHECK(only(StressKind::verify, {}).error == "stress-ng did not end in time");
  ToolRun hung;
  hung.errors = "dispatching hogs\n";
  CHECK(only(StressKind::matrix, hung).error == "stress-ng did not end in time: dispatching hogs");
  for (const std::string value : {"0.000000", "-1", "nan", "inf", "x", ""}) {
    INFO(value);
    const auto none =
        only(StressKind::matrix, ended(0, with(tool_output(matrix), "18.461427", value)));
    CHECK_FALSE(none.value);
    CHECK_THAT(none.error, ContainsSubstring("told no bogo-ops-per-second-real-time of matrix"));
  }
  CHECK_FALSE(only(StressKind::stream, ended(0, tool_output(matrix))).value);
}

TEST_CASE("no metrics make their reader fail") {
  std::mt19937 random(20261126);
  const std::string whole = tool_output(stream);
  for (int round = 0; round < 3000; ++round) {
    const auto sample = only(StressKind::stream, ended(0, garbled(whole, random)));
    REQUIRE(sample.value.has_value() == sample.error.empty());
    REQUIRE(sample.value.value_or(1) > 0);
  }
}

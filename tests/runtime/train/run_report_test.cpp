// What a run tells about its rates and about where its time went.

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/layer/gemm.h"
#include "runtime/report/flops.h"
#include "runtime/train/run.h"
#include "runtime/train/run_report.h"
#include "tests/catch.h"
#include "tests/runtime/a_run.h"

using namespace muster;
using namespace muster::test;

namespace {

std::vector<nlohmann::json> metrics_of(const std::string& out) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(out + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

double number(const nlohmann::json& line, const char* key) {
  return line.at(key).get<double>();
}

}  // namespace

TEST_CASE("the four parts of a step's time add up to it, and all are parts") {
  Folder folder;
  ARun run{folder / "out", 2};
  run = run.with([&](TrainOptions& options) {
    options.checkpoint_dir = folder / "checkpoints";
    options.checkpoint_every = 3;
    options.save_mode = SaveMode::blocking;
  });
  REQUIRE(run.go() == "0");
  const auto lines = metrics_of(run.out);
  REQUIRE(lines.size() == 12);
  double checkpoints = 0, exchange = 0;
  for (const auto& line : lines) {
    double sum = 0;
    for (const char* part : {"compute_ms", "data_wait_ms", "exchange_ms", "checkpoint_ms"}) {
      CHECK(number(line, part) <= number(line, "step_ms"));
      sum += number(line, part);
    }
    CHECK(sum == Approx(number(line, "step_ms")).epsilon(1e-6));
    CHECK(number(line, "compute_ms") > 0);
    exchange += number(line, "exchange_ms");
    checkpoints += number(line, "checkpoint_ms");
  }
  CHECK(exchange > 0);
  // A blocking save after step 3 is a part of the time until step 4 is done.
  CHECK(number(lines[3], "checkpoint_ms") > number(lines[2], "checkpoint_ms"));
  CHECK(checkpoints > 0);
}

TEST_CASE("what steps waited for is told as their mean, each part under its own name") {
  Folder folder;
  TrainOptions options = ARun::tiny();
  options.out = folder / "out";
  options.log_every = 3;
  RunReport report(options, {}, "h1", 0, {1e9, "given"});
  StepOutcome outcome;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    outcome.exchange_s = static_cast<double>(step);
    outcome.data_wait_s = 10 * outcome.exchange_s;
    report.step_done(step, outcome, 100 * outcome.exchange_s);
  }
  const auto lines = metrics_of(options.out);
  REQUIRE(lines.size() == 2);  // the first, and the third with the second
  CHECK(number(lines[0], "exchange_ms") == Approx(1000));
  CHECK(number(lines[0], "data_wait_ms") == Approx(10000));
  CHECK(number(lines[0], "checkpoint_ms") == Approx(100000));
  CHECK(number(lines[1], "exchange_ms") == Approx(2500));
  CHECK(number(lines[1], "data_wait_ms") == Approx(25000));
  CHECK(number(lines[1], "checkpoint_ms") == Approx(250000));
}

TEST_CASE("metrics say rates against a peak that is given for every rank") {
  Folder folder;
  ARun run{folder / "out", 2};
  run = run.with([](TrainOptions& options) {
    options.peak_tflops = 0.5;
    options.model.recompute = true;
  });
  REQUIRE(run.go() == "0");
  const FlopsPerToken flops = flops_per_token({1, 16, 2, 16, 256});
  for (const auto& line : metrics_of(run.out)) {
    const double rate = number(line, "tokens_per_s");
    CHECK(line.at("peak_origin") == "given");
    CHECK(number(line, "peak_tflops") == Approx(1.0));
    CHECK(number(line, "tflops") == Approx(flops.causal * rate / 1e12).epsilon(1e-6));
    CHECK(number(line, "mfu_b") == Approx(flops.megatron * rate / 1e12).epsilon(1e-6));
    CHECK(number(line, "hfu") == Approx(flops.recomputed * rate / 1e12).epsilon(1e-6));
  }
}

TEST_CASE("a measured peak says so, and without recomputation there is no HFU") {
  Folder folder;
  const ARun run{folder / "out", 1};
  REQUIRE(run.go() == "0");
  for (const auto& line : metrics_of(run.out)) {
    CHECK(line.at("peak_origin") == "measured by an FMA loop");
    CHECK(line.at("hfu").is_null());
    CHECK(number(line, "mfu_a") > 0);
    CHECK(number(line, "mfu_a") < 1);
  }
}

TEST_CASE("the peak of a run is that of all its ranks, by what they compute with") {
  TrainOptions options;
  options.threads = 1;
  const auto alone = make_single_communicator();
  const auto origin = [&](Precision precision) {
    options.model.precision = precision;
    const PeakRate peak = run_peak(options, *alone);
    CHECK(peak.flops > 1e8);
    return peak.origin;
  };
  CHECK(origin(Precision::fp32) == "measured by an FMA loop");
  if (has_bf16_gemm()) CHECK(origin(Precision::bf16) == "measured by a bf16 matrix product");
  std::vector<double> flops(3);
  ThreadWorld(3).run([&](Communicator& ranks) {
    TrainOptions given;
    given.peak_tflops = static_cast<double>(ranks.rank()) + 0.5;
    const PeakRate peak = run_peak(given, ranks);
    flops[ranks.rank()] = peak.origin == "given" ? peak.flops : 0;
  });
  CHECK(flops == std::vector<double>(3, 4.5e12));
}

TEST_CASE("a metrics line is one JSON object, with null for what is not a number") {
  const std::string line =
      format_metrics_line({3, 10, 1.5, 1e-3, std::numeric_limits<double>::infinity(), 96, 1000, 2,
                           1.125, 0.5, 0.25, 0.125, 0.75, 0.375, 0.5, std::nullopt, 2, "given"});
  CHECK(line ==
        "{\"step\":3,\"total_steps\":10,\"loss\":1.5,\"lr\":0.001,\"grad_norm\":null,"
        "\"tokens\":96,\"tokens_per_s\":1000,\"step_ms\":2,"
        "\"compute_ms\":1.125,\"data_wait_ms\":0.5,\"exchange_ms\":0.25,"
        "\"checkpoint_ms\":0.125,\"tflops\":0.75,\"mfu_a\":0.375,\"mfu_b\":0.5,\"hfu\":null,"
        "\"peak_tflops\":2,\"peak_origin\":\"given\"}\n");
}

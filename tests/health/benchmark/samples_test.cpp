#include "health/benchmark/samples.h"

#include <random>

#include "health/benchmark/tools/tools.h"
#include "health/model/performance.h"
#include "tests/catch.h"
#include "tests/health/profile_with_floors.h"

using namespace muster;

TEST_CASE("lines of probes are numbers of a device or of the node, or why there is none") {
  const ProbeOutput output = read_probe_output(
      "stream_mb_per_s - 41234.5\n"
      "p2p_gb_per_s gpu0:gpu1 3.4e2\n"
      "hbm_mb_per_s gpu3 error out of memory\n"
      "ib_write_bw_gbps mlx5_0:1 absent ib_write_bw is not installed\n");
  CHECK(output.refused == 0);
  REQUIRE(output.samples.size() == 4);
  CHECK(output.samples[0].metric == "stream_mb_per_s");
  CHECK(output.samples[0].device.empty());
  CHECK(output.samples[0].value == 41234.5);
  CHECK(output.samples[1].device == "gpu0:gpu1");
  CHECK(output.samples[1].value == 340.0);
  CHECK_FALSE(output.samples[2].value);
  CHECK(output.samples[2].error == "out of memory");
  CHECK_FALSE(output.samples[2].is_absent);
  CHECK(output.samples[3].is_absent);
}

TEST_CASE("a line that is none is refused, and the rest is read") {
  const std::string good = "stream_mb_per_s - 5\n";
  for (const std::string bad :
       {"", " ", "speed - 5", "stream_mb_per_s", "stream_mb_per_s -", "stream_mb_per_s - ",
        "stream_mb_per_s - fast", "stream_mb_per_s - 5 GB", "stream_mb_per_s - nan",
        "stream_mb_per_s - inf", "stream_mb_per_s - -5", "stream_mb_per_s - 5x",
        "stream_mb_per_s  - 5", "stream_mb_per_s g!u 5", "stream_mb_per_s - error",
        "stream_mb_per_s - error ", "stream_mb_per_s - unknown why", "stream_mb_per_s - 1e999"}) {
    INFO("'" << bad << "'");
    const ProbeOutput output = read_probe_output(bad + "\n" + good);
    CHECK(output.refused == 1);
    REQUIRE(output.samples.size() == 1);
    CHECK(output.samples[0].value == 5.0);
  }
  const std::string device(65, 'g');
  CHECK(read_probe_output("stream_mb_per_s " + device + " 5\n").refused == 1);
  CHECK(read_probe_output("stream_mb_per_s - error " + std::string(5000, 'x') + "\n").refused == 1);
}

TEST_CASE("faults are counted, and have names where there are any") {
  const ProbeOutput output = read_probe_output(
      "dcgm_failed_tests - 0\n"
      "dcgm_failed_tests gpu1 2 fail Memory failed: bits\x01\n"
      "dcgm_failed_tests gpu2 1 warn Software warned\n"
      "dcgm_failed_tests gpu3 error it hung\n");
  CHECK(output.refused == 0);
  REQUIRE(output.samples.size() == 4);
  CHECK(output.samples[0].value == 0.0);
  CHECK(output.samples[1].value == 2.0);
  CHECK(output.samples[1].note == "Memory failed: bits ");
  CHECK_FALSE(output.samples[1].is_slight);
  CHECK(output.samples[2].is_slight);
  CHECK(output.samples[3].error == "it hung");
  for (const std::string bad : {"2", "0 fail none", "2 fail", "2 fail ", "2 bad x", "x fail y",
                                "-1 fail y", "2fail y", "0 ", "nan fail y"}) {
    INFO(bad);
    CHECK(read_probe_output("dcgm_failed_tests gpu0 " + bad + "\n").samples.empty());
  }
  CHECK(read_probe_output("stream_mb_per_s - 2 fail y\n").samples.empty());
}

TEST_CASE("of counted faults none is right, with a profile and a fleet or without") {
  const auto output = read_probe_output(
      "dcgm_failed_tests gpu0 0\ndcgm_failed_tests gpu1 2 fail Memory failed\n"
      "dcgm_failed_tests gpu2 1 warn Software warned\ndcgm_failed_tests - absent no dcgmi\n");
  for (const double median : {0.0, 5.0}) {
    const auto findings = judge_samples({}, output.samples, {{"dcgm_failed_tests", {median, 20}}});
    REQUIRE(findings.size() == 4);
    CHECK(findings[0].status == CheckStatus::pass);
    CHECK(findings[1].status == CheckStatus::fail);
    CHECK(findings[1].check == "perf.dcgm");
    CHECK(findings[1].device == "gpu1");
    CHECK(findings[1].value == "2");
    CHECK(findings[1].expected == "0");
    CHECK(text_of(findings[1].severity) == "drain");
    CHECK(findings[1].evidence == std::vector<std::string>{"dcgm_failed_tests: Memory failed"});
    CHECK(findings[2].status == CheckStatus::fail);
    CHECK(text_of(findings[2].severity) == "warn");
    CHECK(findings[3].status == CheckStatus::unknown);
    CHECK(findings[3].fault_class == FaultClass::setup);
  }
  HealthProfile off;
  off.checks["perf.dcgm"].mode = CheckMode::off;
  CHECK(judge_samples(off, output.samples, {}).empty());
  CHECK(worst_values(output.samples).empty());
}

TEST_CASE("a line that was cut off is no number") {
  const ProbeOutput output = read_probe_output("h2d_gb_per_s gpu0 52\nh2d_gb_per_s gpu1 5");
  CHECK(output.samples.size() == 1);
  CHECK(output.refused == 1);
  CHECK(output.first_refused == "h2d_gb_per_s gpu1 5");
}

TEST_CASE("of a device that is told twice the first number counts") {
  const ProbeOutput output = read_probe_output("tcp_gbps - 5\ntcp_gbps - 9\n");
  REQUIRE(output.samples.size() == 1);
  CHECK(output.samples[0].value == 5.0);
  CHECK(output.refused == 1);
}

TEST_CASE("errors are one line of readable characters") {
  const ProbeOutput output = read_probe_output("tcp_gbps - error a\x1b[31mred\x80\tone\n");
  REQUIRE(output.samples.size() == 1);
  CHECK(output.samples[0].error == "a [31mred  one");
  CHECK(probe_text("two\nlines").find('\n') == std::string::npos);
}

TEST_CASE("a flood of lines is cut") {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "p2p_gb_per_s gpu" + std::to_string(i) + " 1\n";
  const ProbeOutput output = read_probe_output(text);
  CHECK(output.samples.size() == probe_samples_max);
  CHECK(output.refused == 10'000 - probe_samples_max);
}

TEST_CASE("no bytes make the reader of probes' lines fail, and what it reads is sound") {
  std::mt19937 random(20260401);
  const std::string base =
      "stream_mb_per_s - 41234.5\np2p_gb_per_s gpu0:gpu1 340\nhbm_mb_per_s gpu3 error no memory\n";
  for (int round = 0; round < 5000; ++round) {
    std::string text = base;
    for (int change = static_cast<int>(random() % 8); change >= 0; --change) {
      const std::size_t at = random() % (text.size() + 1);
      if (random() % 2 == 0) {
        text.insert(at, 1, static_cast<char>(random() % 256));
      } else {
        text.erase(at, random() % 6);
      }
    }
    for (const PerformanceSample& sample : read_probe_output(text).samples) {
      REQUIRE(find_performance_metric(sample.metric) != nullptr);
      REQUIRE(sample.value.has_value() == sample.error.empty());
      REQUIRE(sample.value.value_or(0) >= 0);
    }
  }
}

TEST_CASE("a probe that said nothing of a metric is told, with the reason") {
  ProbeOutput output = read_probe_output("h2d_gb_per_s gpu0 50\n");
  const std::vector<std::string> metrics{"h2d_gb_per_s", "d2h_gb_per_s"};
  add_missing_samples(output, metrics, "killed after 60 s");
  REQUIRE(output.samples.size() == 2);
  CHECK(output.samples[1].metric == "d2h_gb_per_s");
  CHECK(output.samples[1].error == "killed after 60 s");
}

TEST_CASE("samples become findings, by floors and the fleet") {
  const HealthProfile profile = with_floors({{"h2d_gb_per_s", 48}, {"stream_mb_per_s", 100'000}});
  const auto output = read_probe_output(
      "h2d_gb_per_s gpu0 50\nh2d_gb_per_s gpu1 20\nh2d_gb_per_s gpu2 error lost\n"
      "stream_mb_per_s - absent no such program\n"
      "tcp_gbps - 10\n");
  const auto findings = judge_samples(profile, output.samples, {{"tcp_gbps", {20, 8}}});
  REQUIRE(findings.size() == 5);
  CHECK(findings[0].status == CheckStatus::pass);
  CHECK(findings[0].check == "perf.h2d_d2h");
  CHECK_FALSE(findings[0].source.empty());
  CHECK(findings[1].status == CheckStatus::fail);
  CHECK(findings[1].device == "gpu1");
  CHECK(findings[2].status == CheckStatus::unknown);
  CHECK(findings[2].fault_class == FaultClass::node);
  CHECK(findings[3].status == CheckStatus::unknown);
  CHECK(findings[3].fault_class == FaultClass::setup);
  CHECK(findings[4].status == CheckStatus::fail);
  CHECK(findings[4].check == "perf.tcp_pair");
}

TEST_CASE("what the profile turns off or leaves out is not judged") {
  HealthProfile profile = with_floors({{"h2d_gb_per_s", 48}, {"stream_mb_per_s", 100'000}});
  profile.checks["perf.stream"].mode = CheckMode::off;
  profile.exclude.push_back({"perf.*", "gpu1", "known to be slow"});
  const auto output =
      read_probe_output("h2d_gb_per_s gpu0 20\nh2d_gb_per_s gpu1 20\nstream_mb_per_s - 1\n");
  const auto findings = judge_samples(profile, output.samples, {});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].device == "gpu0");
}

TEST_CASE("a profile learns the worst device's number, and nothing of what failed anywhere") {
  const auto output = read_probe_output(
      "h2d_gb_per_s gpu0 50\nh2d_gb_per_s gpu1 49\n"
      "ib_latency_p99_us mlx5_0:1 2\nib_latency_p99_us mlx5_1:1 3\n"
      "d2h_gb_per_s gpu0 50\nd2h_gb_per_s gpu1 error lost\n");
  const auto worst = worst_values(output.samples);
  CHECK(worst == std::map<std::string, double>{{"h2d_gb_per_s", 49}, {"ib_latency_p99_us", 3}});
}

// What a job's gate measures, how long that is believed, and what keeps the job away.
#include "health/benchmark/gate_figures.h"

#include "health/benchmark/plan.h"
#include "tests/catch.h"
#include "tests/health/profile_with_floors.h"

using namespace muster;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;

namespace {

using Names = std::vector<std::string>;

GateFigure number(const std::string& metric, double value, milliseconds at = {},
                  const std::string& device = "") {
  return {{metric, device, value, ""}, at, true};
}

GateFigure no_number(const std::string& metric, milliseconds at, const std::string& device = "") {
  return {{metric, device, std::nullopt, "killed"}, at};
}

Names planned(const HealthProfile& profile, const CheckChoice& choice = {}) {
  return probe_names(gate_plan(profile, choice));
}

Names due(const HealthProfile& profile, const std::vector<GateFigure>& known, milliseconds now) {
  return probes_due(profile, gate_plan(profile, {}), known, now);
}

// As it is when a gate has measured twice what was bad.
GateFigure once(GateFigure figure) {
  figure.was_bad_before = false;
  return figure;
}

// "perf.cpu: …; …"
std::string kept_away(const HealthProfile& profile, const std::vector<GateFigure>& figures) {
  std::string text;
  for (const CheckFailure& one : judge_gate_figures(profile, gate_plan(profile, {}), figures)) {
    text += (text.empty() ? "" : "; ") + one.check + ": " + one.message;
    CHECK_FALSE(one.lasting);
  }
  return text;
}

const HealthProfile cpu_profile = with_floors({{"cpu_gemm_gflops", 100}});

}  // namespace

TEST_CASE("a gate runs no diagnostics: they have no floor, and take their time") {
  HealthProfile profile = cpu_profile;
  profile.required = {"perf.dcgm", "perf.sdc"};
  profile.checks["perf.sdc"].limits["time_min"] = 1;
  CHECK(probe_names(gate_plan(profile, {})) == Names{"cpu"});
}

TEST_CASE("a gate measures what one node can, and the profile has floors for") {
  CHECK(planned({}).empty());
  CHECK(planned(cpu_profile) == Names{"cpu"});
  CHECK(planned(with_floors({{"fio_read_mb_per_s", 1},
                             {"tcp_gbps", 1},
                             {"collective_1mib_gb_per_s", 1},
                             {"stream_mb_per_s", 1},
                             {"p2p_gb_per_s", 1}})) == Names{"memory", "gpu-peer"});
  CHECK(planned(cpu_profile, {{"perf.cpu"}, {}}).empty());
  CHECK(planned(cpu_profile, {{}, {"gpu.count"}}).empty());
  CHECK(planned(cpu_profile, {{}, {"perf.cpu"}}) == Names{"cpu"});
  HealthProfile off = cpu_profile;
  off.checks["perf.*"].mode = CheckMode::off;
  CHECK(planned(off).empty());
}

TEST_CASE("a good figure is believed for half a day, a bad one for minutes") {
  const milliseconds now = hours(100);
  struct Row {
    const char* what;
    std::vector<GateFigure> known;
    bool is_due;
  };
  const Row rows[] = {
      {"never measured", {}, true},
      {"good, young", {number("cpu_gemm_gflops", 120, now - hours(11))}, false},
      {"good, old", {number("cpu_gemm_gflops", 120, now - hours(12))}, true},
      {"bad, young", {number("cpu_gemm_gflops", 20, now - minutes(9))}, false},
      {"bad, older", {number("cpu_gemm_gflops", 20, now - minutes(10))}, true},
      {"of the future", {number("cpu_gemm_gflops", 120, now + minutes(1))}, true},
      {"another figure", {number("stream_mb_per_s", 120, now)}, true},
      {"no number, young", {no_number("cpu_gemm_gflops", now - minutes(9))}, false},
      {"no number, older", {no_number("cpu_gemm_gflops", now - minutes(10))}, true},
      {"none of late, but bad before",
       {number("cpu_gemm_gflops", 20, now - minutes(30)), no_number("cpu_gemm_gflops", now)},
       false},
      {"none on one device",
       {number("cpu_gemm_gflops", 120, now - minutes(11), "a"),
        no_number("cpu_gemm_gflops", now - minutes(11), "b")},
       true}};
  for (const Row& row : rows) {
    INFO(row.what);
    CHECK(due(cpu_profile, row.known, now) == (row.is_due ? Names{"cpu"} : Names{}));
  }
  // A floor that was raised makes a bad figure of a good one.
  const HealthProfile raised = with_floors({{"cpu_gemm_gflops", 150}});
  CHECK(due(raised, {number("cpu_gemm_gflops", 120, now - hours(1))}, now) == Names{"cpu"});
  // Of a probe that measures two, both have to be known, on each device.
  const HealthProfile copies = with_floors({{"h2d_gb_per_s", 40}, {"d2h_gb_per_s", 40}});
  std::vector<GateFigure> known{number("h2d_gb_per_s", 50, now, "gpu0")};
  CHECK(due(copies, known, now) == Names{"gpu-host"});
  known.push_back(number("d2h_gb_per_s", 50, now, "gpu0"));
  CHECK(due(copies, known, now).empty());
  known.push_back(number("d2h_gb_per_s", 5, now - hours(1), "gpu1"));
  CHECK(due(copies, known, now) == Names{"gpu-host"});
}

TEST_CASE("a figure below its floor keeps the job away and is named with its value") {
  CHECK(kept_away(cpu_profile, {number("cpu_gemm_gflops", 100)}).empty());
  CHECK(kept_away(cpu_profile, {number("cpu_gemm_gflops", 20)}) ==
        "perf.cpu: cpu_gemm_gflops 20 GFLOP/s, expected >= 100 GFLOP/s, minimum of the profile");
  const HealthProfile copies = with_floors({{"h2d_gb_per_s", 40}});
  CHECK(kept_away(copies, {number("h2d_gb_per_s", 50, {}, "gpu0"),
                           number("h2d_gb_per_s", 9, {}, "gpu1")}) ==
        "perf.h2d_d2h: h2d_gb_per_s on gpu1 9 GB/s, expected >= 40 GB/s, minimum of the profile");
}

TEST_CASE("a bad figure that was measured once is measured again, and keeps no job away so far") {
  const milliseconds now = hours(100);
  const auto slow = once(number("cpu_gemm_gflops", 20, now));
  const ProbePlan plan = gate_plan(cpu_profile, {});
  CHECK(due(cpu_profile, {slow}, now) == Names{"cpu"});
  CHECK(probes_doubted(cpu_profile, plan, std::vector{slow}) == Names{"cpu"});
  CHECK(kept_away(cpu_profile, {slow}).empty());
  HealthProfile required = cpu_profile;
  required.required = {"perf.cpu"};
  CHECK(kept_away(required, {slow}) ==
        "perf.cpu: is unknown: cpu_gemm_gflops: it was bad once, and was not measured again: "
        "nobody did");
  const auto fast = once(number("cpu_gemm_gflops", 120, now));
  CHECK(due(cpu_profile, {fast}, now).empty());
  CHECK(probes_doubted(cpu_profile, plan, std::vector{fast}).empty());
  // Nobody is kept away by it: it is measured as seldom as before.
  HealthProfile observed = cpu_profile;
  observed.checks["perf.*"].mode = CheckMode::observe;
  CHECK(due(observed, {slow}, now).empty());
}

TEST_CASE("bad twice in a row on one device is bad, and nothing else is") {
  const milliseconds now = hours(100);
  const HealthProfile copies = with_floors({{"h2d_gb_per_s", 40}});
  const auto figure = [&](const char* device, double value, milliseconds at) {
    return once(number("h2d_gb_per_s", value, at, device));
  };
  const auto doubted_after = [&](const std::vector<GateFigure>& known, double gpu0, double gpu1) {
    const std::vector<PerformanceSample> said{{"h2d_gb_per_s", "gpu0", gpu0, ""},
                                              {"h2d_gb_per_s", "gpu1", gpu1, ""}};
    const auto taken = figures_taken(copies, known, said, now);
    REQUIRE(taken.size() == 2);
    CHECK(taken[0].at == now);
    const bool is_doubted = !probes_doubted(copies, gate_plan(copies, {}), taken).empty();
    return std::string(is_doubted ? "again " : "") + kept_away(copies, taken).substr(0, 38);
  };
  const std::string bad = "perf.h2d_d2h: h2d_gb_per_s on gpu0 9 G";
  const milliseconds before = now - minutes(1);
  CHECK(doubted_after({}, 9, 50) == "again ");
  CHECK(doubted_after({figure("gpu0", 8, before), figure("gpu1", 50, before)}, 9, 50) == bad);
  CHECK(doubted_after({figure("gpu0", 8, before), figure("gpu1", 50, before)}, 50, 50).empty());
  CHECK(doubted_after({figure("gpu0", 50, before), figure("gpu1", 9, before)}, 9, 50) == "again ");
  CHECK(doubted_after({figure("gpu0", 8, now - minutes(10))}, 9, 50) == "again ");
  CHECK(doubted_after({no_number("h2d_gb_per_s", before, "gpu0")}, 9, 50) == "again ");
}

TEST_CASE("a check that the profile lets observe keeps no job away") {
  HealthProfile profile = cpu_profile;
  profile.checks["perf.*"].mode = CheckMode::observe;
  CHECK(kept_away(profile, {number("cpu_gemm_gflops", 20)}).empty());
  profile.checks["perf.cpu"].mode = CheckMode::enforce;
  CHECK_FALSE(kept_away(profile, {number("cpu_gemm_gflops", 20)}).empty());
}

TEST_CASE("what was not measured keeps the job away where the profile requires the check") {
  const std::vector<GateFigure> none{{{"cpu_gemm_gflops", "", std::nullopt, "no time"}, {}}};
  CHECK(kept_away(cpu_profile, none).empty());
  HealthProfile required = cpu_profile;
  required.required = {"perf.cpu"};
  CHECK(kept_away(required, none) == "perf.cpu: is unknown: cpu_gemm_gflops: no time");
  CHECK(kept_away(required, {}) == "perf.cpu: is unknown: cpu_gemm_gflops: nothing was said of it");
  CHECK(kept_away(required, {number("cpu_gemm_gflops", 120)}).empty());
}

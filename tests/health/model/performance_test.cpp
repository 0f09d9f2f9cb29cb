#include "health/model/performance.h"

#include <cmath>
#include <set>

#include "health/model/check.h"
#include "tests/catch.h"

using namespace muster;

namespace {

HealthProfile with_floor(const std::string& name, double floor) {
  HealthProfile profile;
  profile.floors[name] = floor;
  return profile;
}

PerformanceSample measured(const std::string& metric, double value) {
  return {metric, "gpu1", value, ""};
}

FleetFigure fleet(double median, int nodes) {
  return {median, nodes};
}

}  // namespace

TEST_CASE("every metric has a name of its own and a check that there is") {
  std::set<std::string_view> names;
  for (const PerformanceMetric& metric : performance_metrics()) {
    INFO(metric.name);
    CHECK(names.insert(metric.name).second);
    CHECK(find_check(metric.check) != nullptr);
    CHECK(find_performance_metric(metric.name) == &metric);
  }
  CHECK(find_performance_metric("speed") == nullptr);
}

TEST_CASE("the performance checks are those of the catalogue") {
  CHECK(text_of(find_check("perf.h2d_d2h")->severity) == "drain>rma");
  CHECK(text_of(find_check("perf.hbm")->severity) == "rma");
  CHECK(text_of(find_check("perf.nccl_node")->severity) == "reset>rma");
  for (const CheckSpec& spec : performance_checks()) {
    INFO(spec.id);
    CHECK(has(spec.phases, Phase::qualification));
    CHECK_FALSE(has(spec.phases, Phase::prolog));
    CHECK(spec.cost >= std::chrono::seconds(5));
  }
}

TEST_CASE("a number is judged by the minimum of the profile") {
  const HealthProfile profile = with_floor("p2p_gb_per_s", 335);
  const auto pass = judge_performance(profile, measured("p2p_gb_per_s", 335), {});
  REQUIRE(pass);
  CHECK(pass->status == CheckStatus::pass);
  const auto fail = judge_performance(profile, measured("p2p_gb_per_s", 334.9), {});
  REQUIRE(fail);
  CHECK(fail->status == CheckStatus::fail);
  CHECK(fail->check == "perf.p2p");
  CHECK(fail->device == "gpu1");
  CHECK(fail->value == "334.9");
  CHECK(fail->expected == ">= 335");
  CHECK(fail->unit == "GB/s");
  CHECK(fail->evidence == std::vector<std::string>{"p2p_gb_per_s, minimum of the profile"});
}

TEST_CASE("what neither the profile nor the fleet knows is not judged") {
  CHECK_FALSE(judge_performance({}, measured("p2p_gb_per_s", 1), {}));
  CHECK_FALSE(judge_performance({}, measured("p2p_gb_per_s", 1), fleet(300, 7)));
  CHECK_FALSE(judge_performance({}, {"p2p_gb_per_s", "gpu0", {}, "no nvbandwidth"}, {}));
}

TEST_CASE("from eight nodes on the fleet is asked too, and the stricter one counts") {
  const HealthProfile profile = with_floor("p2p_gb_per_s", 200);
  const auto status = [&](double value, int nodes) {
    return judge_performance(profile, measured("p2p_gb_per_s", value), fleet(300, nodes))->status;
  };
  CHECK(status(284, 7) == CheckStatus::pass);
  CHECK(status(284, 8) == CheckStatus::fail);
  CHECK(status(285, 8) == CheckStatus::pass);
  // All of the fleet is slow: the floor still says so.
  const auto slow = judge_performance(profile, measured("p2p_gb_per_s", 150), fleet(150, 8));
  CHECK(slow->status == CheckStatus::fail);
  CHECK(slow->expected == ">= 200");
}

TEST_CASE("of a latency the higher number is the worse") {
  const HealthProfile profile = with_floor("ib_latency_p99_us", 4.2);
  const auto good = judge_performance(profile, measured("ib_latency_p99_us", 4.2), {});
  CHECK(good->status == CheckStatus::pass);
  const auto bad = judge_performance(profile, measured("ib_latency_p99_us", 4.3), fleet(3, 8));
  CHECK(bad->status == CheckStatus::fail);
  CHECK(bad->expected == "<= 3.15");
}

TEST_CASE("no number is unknown, with the reason") {
  const HealthProfile profile = with_floor("h2d_gb_per_s", 48);
  const auto none = judge_performance(profile, {"h2d_gb_per_s", "", {}, "nvbandwidth: rc 1"}, {});
  REQUIRE(none);
  CHECK(none->status == CheckStatus::unknown);
  CHECK(none->evidence == std::vector<std::string>{"h2d_gb_per_s: nvbandwidth: rc 1"});
  CHECK(judge_performance(profile, measured("h2d_gb_per_s", std::nan("")), {})->status ==
        CheckStatus::unknown);
}

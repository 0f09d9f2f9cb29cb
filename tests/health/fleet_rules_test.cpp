// Rules of the profile that compare nodes by what they tell: `all_equal` and `majority`.
#include "health/fleet_rules.h"

#include <cmath>
#include <limits>

#include "health/model/check.h"
#include "tests/catch.h"

using namespace muster;

namespace {

using Fleet = std::map<std::string, FleetNode>;

std::string name(std::size_t node) {
  return "n" + std::to_string(node);
}

FleetNode telling(const std::vector<std::string>& values) {
  FleetNode node;
  for (const std::string& value : values) {
    HealthFinding finding = make_finding(
        "gpu.power_limit", "gpu" + std::to_string(node.findings.size()), CheckStatus::pass);
    finding.value = value;
    node.findings.push_back(std::move(finding));
  }
  return node;
}

// One value of each node; empty: it is not known there.
Fleet limits(const std::vector<std::string>& values) {
  Fleet fleet;
  for (const std::string& value : values) {
    FleetNode node = telling({value});
    if (value.empty()) node.findings.front().status = CheckStatus::unknown;
    fleet[name(fleet.size())] = std::move(node);
  }
  return fleet;
}

Fleet streams(const std::vector<double>& values) {
  Fleet fleet;
  for (const double value : values) {
    FleetNode node;
    node.figures = {{"stream_mb_per_s", "", value, ""}};
    fleet[name(fleet.size())] = std::move(node);
  }
  return fleet;
}

HealthProfile with(RuleOperator op, const char* metric = "gpu.power_limit") {
  HealthProfile profile;
  profile.rules = {{"alike", metric, op, 0, "!drain>rma"}};
  return profile;
}

// "n0 pass; n1 fail !drain>rma; …"
std::string said(const HealthProfile& profile, const Fleet& fleet) {
  std::string text;
  for (const auto& [node, findings] : judge_fleet_rules(profile, fleet)) {
    for (const HealthFinding& one : findings) {
      text += (text.empty() ? "" : "; ") + node + " " + std::string(word_of(one.status));
      if (one.status == CheckStatus::fail) text += " " + text_of(one.severity);
    }
  }
  return text;
}

constexpr auto all_equal = RuleOperator::all_equal;
constexpr auto majority = RuleOperator::majority;

}  // namespace

TEST_CASE("who differs from more than half of the nodes fails, and nobody without such a half") {
  struct Row {
    RuleOperator op;
    std::vector<std::string> values;
    const char* said;
  };
  const Row rows[] = {
      {majority, {"700", "700", "700"}, "n0 pass; n1 pass; n2 pass"},
      {majority, {"700", "500", "700"}, "n0 pass; n1 fail !drain>rma; n2 pass"},
      {majority, {"1", "2", "3"}, "n0 unknown; n1 unknown; n2 unknown"},
      {majority, {"1", "1", "2", "2"}, "n0 unknown; n1 unknown; n2 unknown; n3 unknown"},
      {majority, {"700", "", "700", "700"}, "n0 pass; n1 unknown; n2 pass; n3 pass"},
      {majority, {"700", "", "700"}, "n0 unknown; n1 unknown; n2 unknown"},
      {majority, {"700", "500"}, ""},
      {majority, {"", "", ""}, ""},
      {all_equal, {"700", "700"}, "n0 pass; n1 pass"},
      {all_equal, {"700", "500"}, "n0 fail warn; n1 fail warn"},
      {all_equal, {"1", "2", "3"}, "n0 fail warn; n1 fail warn; n2 fail warn"},
      {all_equal, {"1", "1", "2", "2"}, "n0 fail warn; n1 fail warn; n2 fail warn; n3 fail warn"},
      {all_equal, {"700", "500", "700"}, "n0 pass; n1 fail !drain>rma; n2 pass"},
      {all_equal, {"700", ""}, "n0 unknown; n1 unknown"},
      {all_equal, {"700", "", "500"}, "n0 fail warn; n1 unknown; n2 fail warn"},
      {all_equal, {"700"}, ""},
      {all_equal, {}, ""}};
  for (const Row& row : rows) {
    INFO(row.said);
    CHECK(said(with(row.op), limits(row.values)) == row.said);
  }
}

TEST_CASE("the finding says rule, value and what is expected") {
  const auto judged = judge_fleet_rules(with(majority), limits({"700", "500", "700"}));
  REQUIRE(judged.at("n1").size() == 1);
  const HealthFinding& odd = judged.at("n1").front();
  CHECK(odd.check == "gpu.power_limit");
  CHECK(odd.device.empty());
  CHECK(odd.value == "500");
  CHECK(odd.expected == "700");
  CHECK(odd.source == "as 3 nodes tell");
  CHECK(odd.evidence == std::vector<std::string>{"gpu.power_limit, rule alike"});
  const auto split = judge_fleet_rules(with(all_equal), limits({"1", "1", "2", "2"}));
  const HealthFinding& one = split.at("n0").front();
  CHECK(one.fault_class == FaultClass::infra);
  CHECK(one.severity.remedy == Remedy::warn);
  CHECK(one.expected == "the same on all nodes");
  CHECK(one.evidence ==
        std::vector<std::string>{
            "gpu.power_limit, rule alike: no value has the majority: 1 on 2, 2 on 2"});
}

TEST_CASE("of several devices all values count, whatever their order") {
  Fleet fleet{{"a", telling({"700", "500"})},
              {"b", telling({"500", "700", "700"})},
              {"c", telling({"700", "700"})}};
  CHECK(said(with(majority), fleet) == "a pass; b pass; c fail !drain>rma");
  fleet["a"].findings[1].status = CheckStatus::unknown;
  fleet["d"] = fleet["b"];
  CHECK(said(with(majority), fleet) == "a unknown; b pass; c fail !drain>rma; d pass");
  fleet["silent"] = {};
  CHECK_THAT(said(with(majority), fleet), ContainsSubstring("silent unknown"));
}

TEST_CASE("figures are the same within the distance of their metric") {
  const HealthProfile profile = with(majority, "perf.stream");
  CHECK(said(profile, streams({200, 204, 196})) == "n0 pass; n1 pass; n2 pass");
  CHECK(said(profile, streams({200, 202, 150})) == "n0 pass; n1 pass; n2 fail !drain>rma");
  CHECK(said(profile, streams({200, 300, 400})) == "n0 unknown; n1 unknown; n2 unknown");
  const auto judged = judge_fleet_rules(profile, streams({200, 200, 150}));
  CHECK(judged.at("n2").front().expected == "200 +-5 %");
  CHECK(judged.at("n2").front().value == "150");
  CHECK(judged.at("n2").front().unit == "MB/s");
  CHECK(said(with(all_equal, "stream_mb_per_s"), streams({200, 150})) ==
        "n0 fail warn; n1 fail warn");
  CHECK(said(with(majority, "cpu_gemm_gflops"), streams({1, 1, 1})).empty());
  Fleet fleet = streams({200, 200, 200});
  fleet["n1"].figures.front().value.reset();
  fleet["n3"] = fleet["n0"];
  CHECK(said(profile, fleet) == "n0 pass; n1 unknown; n2 pass; n3 pass");
}

TEST_CASE("the majority of numbers is where most are near, and may be nowhere") {
  const auto of = [](const std::vector<double>& values, double percent) {
    std::map<std::string, double> by_node;
    for (const double value : values) by_node[name(by_node.size())] = value;
    return figure_majority(by_node, percent);
  };
  constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(of({}, 5));
  CHECK_FALSE(of({no_number, INFINITY}, 5));
  CHECK_FALSE(of({1, 2}, 5));
  CHECK_FALSE(of({1, 1, 2, 2}, 5));
  CHECK(of({7}, 5)->value == 7);
  CHECK(of({0, 0, 0}, 5)->differing.empty());
  CHECK(of({-10, -10, 10}, 5)->differing == std::vector<std::string>{"n2"});
  // Each is near the one in the middle.
  const auto chain = of({96, 100, 104}, 5);
  REQUIRE(chain);
  CHECK(chain->value == 100);
  CHECK(chain->differing.empty());
  CHECK(of({100, 100, no_number, 50}, 5)->differing == std::vector<std::string>{"n3"});
  CHECK(of({1e308, 1e308, 1}, 5)->differing == std::vector<std::string>{"n2"});
}

TEST_CASE("rules of other operators, of no severity or of no check compare nothing") {
  HealthProfile profile = with(RuleOperator::count_of);
  CHECK(judge_fleet_rules(profile, limits({"1", "2", "3"})).empty());
  profile = with(majority);
  profile.rules[0].severity = "burn";
  CHECK(judge_fleet_rules(profile, limits({"1", "1", "3"})).empty());
  profile = with(majority, "gpu.nothing");
  CHECK(judge_fleet_rules(profile, limits({"1", "1", "3"})).empty());
}

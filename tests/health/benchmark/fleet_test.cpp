// Figures of several nodes, compared with each other: who is named, and who is not.
#include "health/benchmark/samples.h"

#include "health/model/check.h"
#include "tests/catch.h"

using namespace muster;

namespace {

using Values = std::vector<double>;

std::string name(std::size_t node) {
  return "n" + std::to_string(node);
}

// One figure of each node.
NodeFigures nodes(const std::string& metric, const Values& values) {
  NodeFigures by_node;
  for (const double value : values) by_node[name(by_node.size())] = {{metric, "", value, ""}};
  return by_node;
}

HealthProfile with_floor(const std::string& metric, double floor) {
  HealthProfile profile;
  profile.floors[metric] = floor;
  return profile;
}

// "n3: perf.cpu fail drain; …", of those that did not pass.
std::string blamed(const HealthProfile& profile, const NodeFigures& by_node) {
  std::string text;
  for (const auto& [node, judgements] : judge_fleet(profile, by_node)) {
    for (const FleetJudgement& one : judgements) {
      const HealthFinding& finding = one.finding;
      if (finding.status == CheckStatus::pass) continue;
      text += (text.empty() ? "" : "; ") + node + ": " + finding.check + " " +
              std::string(word_of(finding.status));
      if (finding.status == CheckStatus::fail) text += " " + text_of(finding.severity);
    }
  }
  return text;
}

constexpr const char* cpu_metric = "cpu_gemm_gflops";

}  // namespace

TEST_CASE("from eight nodes on the one that is slower than the median allows is named") {
  struct Row {
    const char* what;
    const char* metric;
    Values values;
    const char* blamed;
  };
  const Row rows[] = {
      {"one of eight",
       cpu_metric,
       {100, 101, 99, 100, 90, 100, 100, 100},
       "n4: perf.cpu fail drain"},
      {"one of seven", cpu_metric, {100, 101, 99, 100, 90, 100, 100}, ""},
      {"within five percent", cpu_metric, {100, 100, 100, 100, 95, 100, 100, 100}, ""},
      {"all slow alike", cpu_metric, {10, 10, 10, 10, 10, 10, 10, 10}, ""},
      {"half of them",
       cpu_metric,
       {100, 100, 100, 100, 50, 50, 50, 50},
       "n4: perf.cpu fail drain; n5: perf.cpu fail drain; n6: perf.cpu fail drain; "
       "n7: perf.cpu fail drain"},
      {"one is faster", cpu_metric, {100, 100, 100, 900, 100, 100, 100, 100}, ""},
      {"a disk may be off by twenty",
       "fio_read_mb_per_s",
       {10, 10, 10, 10, 8, 10, 10, 7},
       "n7: perf.fio fail warn"},
      {"a latency is worse when it is higher",
       "tcp_latency_us",
       {9, 9, 9, 9, 9, 9, 1, 14},
       "n7: perf.tcp_pair fail warn"},
      {"nothing at all", cpu_metric, {0, 0, 0, 0, 0, 0, 0, 0}, ""}};
  for (const Row& row : rows) {
    INFO(row.what);
    CHECK(blamed({}, nodes(row.metric, row.values)) == row.blamed);
  }
}

TEST_CASE("the finding says the value, the bound and the median") {
  const auto judged =
      judge_fleet({}, nodes("stream_mb_per_s", {200, 200, 200, 200, 200, 200, 200, 120}));
  REQUIRE(judged.at("n7").size() == 1);
  const HealthFinding& slow = judged.at("n7").front().finding;
  CHECK(slow.check == "perf.stream");
  CHECK(slow.value == "120");
  CHECK(slow.expected == ">= 190");
  CHECK(slow.unit == "MB/s");
  CHECK(slow.evidence == std::vector<std::string>{"stream_mb_per_s, fleet median 200 -5 %"});
  CHECK_FALSE(judged.at("n7").front().alone);
  CHECK(judged.at("n0").front().finding.status == CheckStatus::pass);
}

TEST_CASE("a floor that is stricter than the median speaks for itself") {
  const Values all_slow{10, 10, 10, 10, 10, 10, 10, 10};
  // The nodes said so.
  CHECK(judge_fleet(with_floor(cpu_metric, 50), nodes(cpu_metric, all_slow)).empty());
  const auto judged = judge_fleet(with_floor(cpu_metric, 50),
                                  nodes(cpu_metric, {100, 100, 100, 100, 100, 100, 100, 60}));
  const FleetJudgement& slow = judged.at("n7").front();
  CHECK(slow.finding.status == CheckStatus::fail);
  REQUIRE(slow.alone);
  CHECK(slow.alone->status == CheckStatus::pass);
  CHECK(slow.alone->expected == ">= 50");
}

TEST_CASE("a figure that is missing is unknown and counts for no median") {
  NodeFigures by_node = nodes(cpu_metric, {100, 100, 100, 100, 100, 100, 100, 100});
  by_node["killed"] = {{cpu_metric, "", std::nullopt, "the benchmark was killed after 30 s"}};
  by_node["silent"] = {};
  CHECK(blamed({}, by_node) == "killed: perf.cpu unknown; silent: perf.cpu unknown");
  CHECK(fleet_figures(by_node).at(cpu_metric).nodes == 8);
  const auto judged = judge_fleet({}, by_node);
  CHECK(judged.at("killed").front().finding.evidence ==
        std::vector<std::string>{"cpu_gemm_gflops: the benchmark was killed after 30 s"});
  by_node.erase("n0");
  CHECK(blamed({}, by_node).empty());  // of seven nodes no median is made
  // A floor alone: what was not said is known to be missing when others said it.
  CHECK(blamed(with_floor(cpu_metric, 50), by_node) == "silent: perf.cpu unknown");
}

TEST_CASE("a node counts once in the median, and each of its devices is judged") {
  NodeFigures by_node = nodes("h2d_gb_per_s", {50, 50, 50, 50, 50, 50, 50});
  std::vector<PerformanceSample>& many = by_node["many"];
  for (int gpu = 0; gpu < 8; ++gpu) {
    many.push_back({"h2d_gb_per_s", "gpu" + std::to_string(gpu), gpu == 3 ? 12.0 : 90.0, ""});
  }
  CHECK(fleet_figures(by_node).at("h2d_gb_per_s").median == 50);
  const auto judged = judge_fleet({}, by_node);
  for (const FleetJudgement& one : judged.at("many")) {
    const bool is_slow = one.finding.device == "gpu3";
    CHECK(one.finding.status == (is_slow ? CheckStatus::fail : CheckStatus::pass));
  }
}

TEST_CASE("checks that are off and devices that are left out are not compared") {
  HealthProfile profile;
  profile.checks["perf.*"].mode = CheckMode::off;
  CHECK(judge_fleet(profile, nodes(cpu_metric, {9, 9, 9, 9, 9, 9, 9, 1})).empty());
  CHECK(judge_fleet({}, {}).empty());
}

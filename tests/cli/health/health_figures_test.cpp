// Nodes that were measured: their figures are read with distrust, compared and shown.
#include <nlohmann/json.hpp>

#include "cli/health/benchmark.h"
#include "cli/health/cluster/compare.h"
#include "cli/health/result.h"
#include "health/output/finding_report.h"
#include "scheduler/text/duration.h"
#include "tests/catch.h"

using namespace muster;

namespace {

constexpr const char* measured_at = "2027-01-15T08:00:00.000Z";

HealthProfile site(double floor = 0) {
  HealthProfile profile;
  profile.name = "site";
  if (floor > 0) profile.floors["cpu_gemm_gflops"] = floor;
  profile.checks["perf.*"].mode = CheckMode::enforce;
  return profile;
}

// As its own program writes it.
HostHealth measured(const std::string& node, std::optional<double> gflops,
                    const HealthProfile& profile) {
  ProbeFigures figures;
  figures.samples = {{"cpu_gemm_gflops", "", gflops, gflops ? "" : "the benchmark was killed"}};
  ActiveMoment moment;
  moment.at = {from_ms(1'800'000'000'000), std::chrono::minutes(60)};
  moment.run = {moment.at.wall, "host", "6f"};
  HealthState state;
  const HostHealth look = judge_figures(figures, profile, moment, state);
  return read_answer(node, "lab", document_line(health_document(look)), measured_at);
}

std::vector<HostHealth> fleet(const std::vector<std::optional<double>>& values,
                              const HealthProfile& profile) {
  std::vector<HostHealth> answers;
  for (const auto& value : values) {
    answers.push_back(measured("n" + std::to_string(answers.size()), value, profile));
  }
  compare_figures(
      answers, [&](const HostHealth&) { return profile; }, from_ms(1'800'000'000'000));
  return answers;
}

}  // namespace

TEST_CASE("one slow node of eight is named, with the median, and is not fit") {
  auto answers = fleet({100, 100, 100, 100, 100, 100, 100, 60}, site());
  CHECK(answers[0].fitness == NodeFitness::ok);
  CHECK(answers[0].findings.at(0).code == MonitorCode::ok);
  CHECK(answers[7].fitness == NodeFitness::drained);
  CHECK(answers[7].why == "perf.cpu: 60 GFLOP/s, expected >= 95 GFLOP/s");
  REQUIRE(answers[7].findings.size() == 1);
  CHECK(answers[7].findings[0].host == "n7");
  CHECK(health_exit(answers) == HealthExit::drained);
  sort_worst_first(answers);
  const std::string text = nodes_text(answers, {});
  CHECK_THAT(text, ContainsSubstring("cpu_gemm_gflops, fleet median 100 -5 %"));
  CHECK_THAT(text, ContainsSubstring("MEDIAN"));
  CHECK(text.find("only minimums judge") == text.npos);
  const Document document = nodes_document(answers);
  CHECK(document["figures"] ==
        Document::parse(R"([{"target": "lab", "profile": "site", "metric": "cpu_gemm_gflops",
            "unit": "GFLOP/s", "nodes": 8, "median": 100.0, "worst": 60.0, "node": "n7",
            "compared": true}])"));
  CHECK_THAT(nagios_answer(findings_of(answers), HostNames::told).line,
             ContainsSubstring("CRITICAL - n7 perf.cpu 60"));
}

TEST_CASE("of seven nodes floors alone judge, and the table says so") {
  const auto answers = fleet({100, 100, 100, 100, 100, 100, 60}, site(50));
  CHECK(health_exit(answers) == HealthExit::healthy);
  for (const HostHealth& one : answers) CHECK(one.findings.size() == 1);
  CHECK_THAT(nodes_text(answers, {}), ContainsSubstring("only minimums judge"));
}

TEST_CASE("what the fleet says takes the place of what the node said of the same figure") {
  const auto answers = fleet({100, 100, 100, 100, 100, 100, 100, 60}, site(50));
  REQUIRE(answers[7].findings.size() == 1);
  CHECK(answers[7].findings[0].status == "fail");
  CHECK(answers[7].findings[0].expected == ">= 95");
  // Below the floor as well: it is said once.
  const auto lower = fleet({100, 100, 100, 100, 100, 100, 100, 20}, site(50));
  REQUIRE(lower[7].findings.size() == 1);
  CHECK(lower[7].fitness == NodeFitness::drained);
  CHECK(lower[7].why.starts_with("muster:node:perf.cpu"));
}

TEST_CASE("a node that gave no figure is unclear, also where its check is not required") {
  HealthProfile profile = site();
  auto answers = fleet({100, 100, 100, 100, 100, 100, 100, 100, std::nullopt}, profile);
  CHECK(answers[8].findings.at(0).status == "unknown");
  CHECK(answers[8].fitness == NodeFitness::unclear);
  CHECK(answers[8].why.find("required check") == std::string::npos);
  CHECK(health_exit(answers) == HealthExit::unclear);
  profile.required = {"perf.cpu"};
  answers = fleet({100, 100, 100, 100, 100, 100, 100, 100, std::nullopt}, profile);
  CHECK(answers[8].fitness == NodeFitness::unclear);
  CHECK_THAT(answers[8].why, ContainsSubstring("required check did not pass: perf.cpu"));
  CHECK(health_exit(answers) == HealthExit::unclear);
}

TEST_CASE("a node with a job is not measured, which is no pass") {
  const HostHealth answer =
      not_measured("n1", "lab", "not started: job j4 holds it", {"perf.cpu"}, measured_at);
  CHECK(health_exit({answer}) == HealthExit::unclear);
  CHECK(answer.node == "n1");
  CHECK(answer.target == "lab");
  CHECK(answer.fitness == NodeFitness::unclear);
  CHECK(answer.phase == "not measured");
  CHECK(nodes_document({answer})["nodes"][0]["target"] == "lab");
  REQUIRE(answer.findings.size() == 1);
  CHECK(answer.findings[0].code == MonitorCode::unknown);
  CHECK(answer.findings[0].check == "perf.cpu");
  CHECK(answer.findings[0].host == "n1");
  CHECK(answer.findings[0].evidence == std::vector<std::string>{answer.why});
  const std::string text = nodes_text({answer}, {});
  CHECK_THAT(text, ContainsSubstring("not started: job j4 holds it"));
  CHECK_THAT(text, ContainsSubstring("1 unclear (n1)"));
  CHECK(nagios_answer(findings_of({answer}), HostNames::told).exit_code == 3);
  CHECK_FALSE(nodes_document({answer}).contains("figures"));
}

TEST_CASE("figures that make no sense are no answer") {
  const std::string whole = document_line(health_document(measured("n1", 100, site())));
  for (const char* figures :
       {"7", "null", "{}", "[7]", "[{}]", R"([{"metric": "speed", "value": 1}])",
        R"([{"metric": "tcp_gbps"}])", R"([{"metric": "tcp_gbps", "value": -1}])",
        R"([{"metric": "tcp_gbps", "value": "fast"}])", R"([{"metric": 7, "value": 1}])"}) {
    INFO(figures);
    Document changed = Document::parse(whole);
    changed["figures"] = Document::parse(figures);
    CHECK(read_answer("h", "t", changed.dump(), measured_at).fitness == NodeFitness::unclear);
  }
}

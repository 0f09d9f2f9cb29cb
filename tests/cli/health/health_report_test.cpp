#include "cli/health/result.h"

#include <nlohmann/json.hpp>

#include "health/model/check.h"
#include "health/output/finding_report.h"
#include "scheduler/text/duration.h"
#include "tests/catch.h"
#include "tests/cli/looked_node.h"

using namespace muster;

namespace {

HostHealth look_of(const std::vector<HealthFinding>& findings) {
  HostHealth look = Looked(findings).look;
  look.host = "n17";
  look.took_ms = 212;
  for (FindingReport& one : look.findings) one.host = look.host;
  return look;
}

HealthFinding down_finding() {
  return a_finding("ib.state", "mlx5_3:1", CheckStatus::fail, "1: DOWN", {"P/state says 1: DOWN"});
}

}  // namespace

TEST_CASE("passes are counted, failures and unknowns are shown with their evidence") {
  const HostHealth look =
      look_of({a_finding("ib.state", "mlx5_0:1", CheckStatus::pass, "4: ACTIVE"), down_finding(),
               a_finding("gpu.temp", "gpu3", CheckStatus::unknown, "", {"not supported (3)"})});
  const std::string text = health_text(look, {});
  CHECK_THAT(text, ContainsSubstring("1 check passed, 1 failed, 1 unknown, in 0.2s; profile h100"));
  CHECK_THAT(text, ContainsSubstring("P/state says 1: DOWN"));
  CHECK_THAT(text, ContainsSubstring("gpu.temp gpu3"));
  CHECK_THAT(text, ContainsSubstring("  not supported (3)"));
  CHECK(text.find("mlx5_0:1") == text.npos);
  CHECK(text.find("mlx5_3:1") < text.find("gpu3"));  // the worst first
  CHECK_THAT(health_text(look, {.all = true}), ContainsSubstring("mlx5_0:1"));
}

TEST_CASE("the last line says what becomes of the host, and so does the exit code") {
  HostHealth look = look_of({a_finding("ib.state", "mlx5_0:1", CheckStatus::pass)});
  const auto judged = [&](const NodeVerdict& verdict) {
    look.verdict = report_of(verdict);
    CHECK(look.verdict.state == health_exit(verdict));
    return look.verdict.state;
  };
  CHECK(judged({}) == HealthExit::healthy);
  CHECK_THAT(health_text(look, {}), ContainsSubstring("n17 is ready\n"));
  NodeVerdict verdict;
  verdict.unconfirmed = {{"ib.state", "mlx5_3:1"}};
  CHECK(judged(verdict) == HealthExit::unclear);
  CHECK_THAT(health_text(look, {}),
             ContainsSubstring("not yet confirmed: ib.state mlx5_3:1\nn17 is unknown\n"));
  verdict.unconfirmed.clear();
  verdict.unclear = {{"gpu.count", ""}};
  CHECK(judged(verdict) == HealthExit::unclear);
  CHECK_THAT(health_text(look, {}), ContainsSubstring("required check did not pass: gpu.count\n"));
  verdict.drains = {a_standing_fault(down_finding())};
  CHECK(judged(verdict) == HealthExit::drained);
  const std::string drained = health_text(look, {});
  CHECK_THAT(drained, ContainsSubstring(
                          "drains: ib.state mlx5_3:1, !drain, since 2027-01-15T08:00:00.000Z"));
  CHECK_THAT(drained,
             ContainsSubstring("n17 unavailable: muster:node:ib.state:mlx5_3:1 6f01ab22\n"));
  verdict = {};
  verdict.would_drain = {a_standing_fault(down_finding())};
  CHECK(judged(verdict) == HealthExit::healthy);
  CHECK_THAT(health_text(look, {}), ContainsSubstring("would drain (observe mode): ib.state"));
  look.profile = "hgx-h100";
  CHECK_THAT(health_text(look, {}),
             ContainsSubstring("to make it drain: `ib.state: {mode: enforce}` under `checks:` of a "
                               "profile over hgx-h100 (docs/health.md)\n"));
  judged({});
  CHECK(health_text(look, {}).find("to make it drain") == std::string::npos);
}

TEST_CASE("a host of which nothing was checked is unknown") {
  HostHealth look = look_of({});
  look.verdict.state = HealthExit::unclear;
  CHECK_THAT(health_text(look, {}), ContainsSubstring("n17 is unknown: nothing was checked\n"));
  CHECK(health_document(look)["verdict"]["state"] == "unclear");
  CHECK(concluded(look).state == HealthExit::unclear);
  look = look_of({a_finding("gpu.temp", "gpu3", CheckStatus::unknown)});
  look.verdict = concluded(look);
  CHECK_THAT(health_text(look, {}), ContainsSubstring("n17 is unknown: every check is unknown\n"));
}

TEST_CASE("a serious failure that is not believed yet is no pass") {
  HostHealth look = look_of({down_finding()});
  look.verdict = concluded(look);
  CHECK(look.verdict.state == HealthExit::unclear);
  CHECK_THAT(health_text(look, {}), ContainsSubstring("not yet confirmed: ib.state mlx5_3:1\n"));
}

TEST_CASE("what hangs is named") {
  HostHealth look = look_of({});
  look.hung = {{"/data", "no answer within 5 s"}};
  CHECK_THAT(health_text(look, {}), ContainsSubstring("hung: /data: no answer within 5 s\n"));
  CHECK(health_document(look)["hung"] ==
        Document::parse(R"([{"source":"/data","why":"no answer within 5 s"}])"));
}

TEST_CASE("no name of a device and no line of evidence moves a terminal's cursor") {
  HostHealth look = look_of({a_finding("ib.state", "mlx5\x1b[2J\r", CheckStatus::fail, "\x1b]0;x\a",
                                       {"a\x1b[31mb\nforged: line", "\xff"})});
  look.host = "n\x1b[1m";
  NodeVerdict verdict;
  verdict.drains = {a_standing_fault(down_finding())};
  verdict.drains[0].finding.device = "gpu\x1b[1m";
  look.verdict = report_of(verdict);
  look.hung = {{"/a\x1b", "b\x1b"}};
  for (const bool color : {false, true}) {
    std::string text = health_text(look, {true, 0, false});
    CHECK(text.find('\x1b') == text.npos);
    CHECK(text.find('\r') == text.npos);
    CHECK(text.find("\nforged") == text.npos);
    text = health_text(look, {true, 80, color});
    CHECK(text.find("\x1b]0") == text.npos);
    CHECK(text.find("\x1b[2J") == text.npos);
  }
  CommonOptions common;
  common.output = OutputFormat::json;
  CHECK(document_text(health_document(look), common)->find('\x1b') == std::string::npos);
  CHECK(report_lines(look.findings).find('\x1b') == std::string::npos);
  CHECK(nagios_answer(look.findings).line.find('\x1b') == std::string::npos);
  CHECK(prometheus_text(look.findings, from_ms(1'800'000'000'000)).find('\x1b') ==
        std::string::npos);
}

TEST_CASE("a line of JSON for each finding has the fields of its schema, in their order") {
  const HostHealth look = look_of({a_finding("ib.symbol", "mlx5_3:1", CheckStatus::fail, "131")});
  const std::string lines = report_lines(look.findings);
  CHECK(lines.substr(0, 62) == R"({"ts":"2027-01-15T08:00:00.000Z","host":"n17","boot_id":"6f",")");
  const Document one = Document::parse(lines);
  std::string keys;
  for (const auto& item : one.items()) keys += item.key() + " ";
  CHECK(keys ==
        "ts host boot_id check device serial status severity class value expected unit source "
        "duration_ms mode finding first_seen evidence ");
  CHECK(one["value"] == 131);
  CHECK(one["mode"] == "observe");
  CHECK(one["duration_ms"] == 0.2);
}

TEST_CASE("the document holds every finding, the verdict and what is null") {
  HostHealth look = look_of({a_finding("ib.state", "mlx5_0:1", CheckStatus::pass), down_finding()});
  look.profile.reset();
  NodeVerdict verdict;
  verdict.drains = {a_standing_fault(down_finding())};
  look.verdict = report_of(verdict);
  const Document document = health_document(look);
  CHECK(document["profile"].is_null());
  CHECK(document["counts"] ==
        Document::parse(R"({"pass":1,"fail":1,"unknown":0,"first_readings":0})"));
  CHECK(document["findings"].size() == 2);
  CHECK(document["verdict"]["state"] == "drained");
  CHECK(document["verdict"]["reason"] == "muster:node:ib.state:mlx5_3:1 6f01ab22");
  CHECK(document["verdict"]["drains"][0]["severity"] == "!drain");
  CHECK(document["verdict"]["drains"][0]["evidence"][0] == "P/state says 1: DOWN");
  CHECK(health_document(look_of({}))["verdict"]["reason"].is_null());
}

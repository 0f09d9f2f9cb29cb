#include <map>

#include "health/output/finding_report.h"
#include "health/verdict/streaks.h"
#include "tests/catch.h"
#include "tests/health/verdict/verdict_builders.h"

using namespace muster;

namespace {

FindingReport a_report(const std::string& check, const std::string& device, MonitorCode code) {
  FindingReport report;
  report.check = check;
  report.device = device;
  report.code = code;
  report.status = code == MonitorCode::ok ? "pass" : "fail";
  return report;
}

// Fields by name, as a codec would write them; what is absent is left out.
struct FieldTexts {
  std::vector<std::pair<std::string, std::string>> texts;

  void add(const char* name, const std::string& text) {
    texts.emplace_back(name, "'" + text + "'");
  }
  void add(const char* name, double number) { texts.emplace_back(name, std::to_string(number)); }
  void add(const char* name, std::int64_t number) {
    texts.emplace_back(name, std::to_string(number));
  }
  void add(const char* name, const std::vector<std::string>& list) {
    texts.emplace_back(name, "[" + std::to_string(list.size()) + "]");
  }
  template <class T>
  void add(const char* name, const std::optional<T>& value) {
    if (value) add(name, *value);
  }
  void add(const char* name, const ReportValue& value) {
    add(name, value.whole);
    add(name, value.number);
    add(name, value.text);
  }
};

}  // namespace

TEST_CASE("a report has the fields of a JSON line, in its order") {
  WatchedNode node;
  HealthFinding finding = a_failure("ib.symbol", "mlx5_3:1");
  finding.serial = "MT24";
  finding.value = "131";
  finding.expected = "<=120";
  finding.unit = "1/h";
  finding.source = "P/counters/symbol_error";
  node.run(finding, 3);
  const RunFacts run{node.now, "n17", "6f"};
  const FindingReport report = report_of(finding, 0.2, run, node.rules, node.streaks);
  FieldTexts fields;
  FindingReport::fields(report,
                        [&](const char* name, const auto& value) { fields.add(name, value); });
  const std::vector<std::pair<std::string, std::string>> expected{
      {"ts", "'1970-01-12T13:46:43.000Z'"},
      {"host", "'n17'"},
      {"boot_id", "'6f'"},
      {"check", "'ib.symbol'"},
      {"device", "'mlx5_3:1'"},
      {"serial", "'MT24'"},
      {"status", "'fail'"},
      {"severity", "'drain'"},
      {"class", "'node'"},
      {"value", "131"},
      {"expected", "'<=120'"},
      {"unit", "'1/h'"},
      {"source", "'P/counters/symbol_error'"},
      {"duration_ms", "0.200000"},
      {"mode", "'enforce'"},
      {"finding", "'" + finding_id(finding) + "'"},
      {"first_seen", "'1970-01-12T13:46:41.000Z'"},
      {"evidence", "[0]"}};
  CHECK(fields.texts == expected);
}

TEST_CASE("a value is a number only where no digit of it is lost") {
  CHECK(report_value("131").whole == 131);
  CHECK(report_value("-7").whole == -7);
  CHECK(report_value("0.5").number == 0.5);
  CHECK(report_value("0.0005").number == 0.0005);
  for (const char* text : {"28.40", "007", "0x1f", "1e5", "1e300", "4: ACTIVE", "inf", "nan", "+1",
                           " 1", "99999999999999999999", "535.104.05"}) {
    INFO(text);
    CHECK(report_value(text).text == text);
    CHECK_FALSE(report_value(text).whole);
    CHECK_FALSE(report_value(text).number);
  }
  CHECK_FALSE(report_value("").text);
}

TEST_CASE("monitor codes") {
  HealthFinding finding = a_failure("a", "", {Remedy::drain, {}, false});
  CHECK(code_of(finding, CheckMode::enforce) == MonitorCode::critical);
  CHECK(code_of(finding, CheckMode::observe) == MonitorCode::warning);
  finding.severity.remedy = Remedy::warn;
  CHECK(code_of(finding, CheckMode::enforce) == MonitorCode::warning);
  finding.severity.stops_job = true;
  CHECK(code_of(finding, CheckMode::enforce) == MonitorCode::critical);
  finding.fault_class = FaultClass::user;
  CHECK(code_of(finding, CheckMode::enforce) == MonitorCode::warning);
  CHECK(code_of(an_unknown("a"), CheckMode::enforce) == MonitorCode::unknown);
  CHECK(code_of(a_pass("a"), CheckMode::enforce) == MonitorCode::ok);
}

TEST_CASE("the worst code wins in the order critical, unknown, warning, ok") {
  const std::vector order{MonitorCode::critical, MonitorCode::unknown, MonitorCode::warning,
                          MonitorCode::ok};
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = i; j < order.size(); ++j) {
      CHECK(worst_code(order[i], order[j]) == order[i]);
      CHECK(worst_code(order[j], order[i]) == order[i]);
    }
  }
}

TEST_CASE("rows are as wide as their headings, and a pass has no severity") {
  FindingReport report = a_report("ib.symbol", "mlx5_3:1", MonitorCode::critical);
  report.severity = "!drain";
  report.value = report_value("131");
  report.unit = "1/h";
  report.mode = "observe";
  const auto row = finding_row(report);
  REQUIRE(row.size() == finding_headings().size());
  CHECK(row[3] == "fail (observed)");
  CHECK(row[4] == "!drain");
  CHECK(row[6] == "131 1/h");
  report.code = MonitorCode::ok;
  CHECK(finding_row(report)[4].empty());
}

TEST_CASE("rows are sorted worst first") {
  const auto sorted = worst_first(
      {a_report("d", "", MonitorCode::ok), a_report("c", "", MonitorCode::warning),
       a_report("b", "", MonitorCode::unknown), a_report("a", "2", MonitorCode::critical),
       a_report("a", "1", MonitorCode::critical)});
  std::string order;
  for (const FindingReport& report : sorted) order += report.check + report.device;
  CHECK(order == "a1a2bcd");
}

TEST_CASE("the text file of a node exporter") {
  FindingReport slow = a_report("ib.state", "mlx5_3:1", MonitorCode::critical);
  slow.duration_ms = 0.5;
  FindingReport back = slow;
  back.duration_ms = -1;
  back.code = MonitorCode::ok;
  FindingReport action = a_report("gpu.recovery_action", "gpu3", MonitorCode::warning);
  action.value = report_value("2");
  const std::string text =
      prometheus_text({slow, a_report("ib.state", "mlx5_3:1", MonitorCode::ok), action},
                      from_ms(1'772'359'200'007));
  CHECK(text ==
        "# HELP muster_health_check State of a check: 0 ok, 1 warning, 2 critical, 3 unknown.\n"
        "# TYPE muster_health_check gauge\n"
        "muster_health_check{check=\"gpu.recovery_action\",device=\"gpu3\"} 1\n"
        "muster_health_check{check=\"ib.state\",device=\"mlx5_3:1\"} 2\n"
        "# HELP muster_health_duration_seconds Time that a check took, on all devices.\n"
        "# TYPE muster_health_duration_seconds gauge\n"
        "muster_health_duration_seconds{check=\"gpu.recovery_action\"} 0\n"
        "muster_health_duration_seconds{check=\"ib.state\"} 0.0005\n"
        "# HELP muster_health_last_run_timestamp_seconds When the checks ran last.\n"
        "# TYPE muster_health_last_run_timestamp_seconds gauge\n"
        "muster_health_last_run_timestamp_seconds 1772359200.007\n"
        "# HELP muster_health_recovery_action What the driver asks for: 0 nothing, 1 GPU reset, 2 "
        "node reboot.\n"
        "# TYPE muster_health_recovery_action gauge\n"
        "muster_health_recovery_action{gpu=\"3\"} 2\n");
}

TEST_CASE("labels hold no byte that ends them") {
  CHECK(prometheus_label("a\"} 9\nb\\c\x01\xff\t") == "a\\\"} 9\\nb\\\\c???");
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string text = prometheus_text({a_report("c", all, MonitorCode::ok)}, from_ms(0));
  CHECK(std::count(text.begin(), text.end(), '\n') == 9);
}

TEST_CASE("two names that look the same as labels are one series") {
  const std::string text = prometheus_text(
      {a_report("c", "\x01", MonitorCode::ok), a_report("c", "\x02", MonitorCode::critical)},
      from_ms(-5));
  CHECK_THAT(text, ContainsSubstring("{check=\"c\",device=\"?\"} 2\n"));
  CHECK_THAT(text, !ContainsSubstring("device=\"?\"} 0"));
  CHECK_THAT(text, ContainsSubstring("timestamp_seconds 0.000\n"));
}

TEST_CASE("a plugin's line and exit code") {
  FindingReport bad = a_report("ib.symbol", "mlx5_3:1", MonitorCode::critical);
  bad.value = report_value("131");
  bad.unit = "1/h";
  bad.expected = "<= 120";
  FindingReport silent = a_report("gpu.count", "", MonitorCode::unknown);
  silent.evidence = {"no | answer\nin 10 s"};
  const PluginAnswer answer = nagios_answer({a_report("a", "", MonitorCode::ok), silent, bad});
  CHECK(answer.exit_code == 2);
  CHECK(answer.line ==
        "MUSTER CRITICAL - ib.symbol mlx5_3:1 131 1/h (expected <= 120), gpu.count unknown: no / "
        "answer?in 10 s | checks=3 ok=1 warning=0 critical=1 unknown=1");
}

TEST_CASE("a plugin's exit code is that of the worst") {
  const auto ok = a_report("a", "", MonitorCode::ok);
  const auto warning = a_report("a", "", MonitorCode::warning);
  const auto unknown = a_report("a", "", MonitorCode::unknown);
  CHECK(nagios_answer({}).exit_code == 3);
  CHECK(nagios_answer({ok}).exit_code == 0);
  CHECK(nagios_answer({ok}).line ==
        "MUSTER OK - all checks pass | checks=1 ok=1 warning=0 critical=0 unknown=0");
  CHECK(nagios_answer({ok, warning}).exit_code == 1);
  CHECK(nagios_answer({warning, unknown, ok}).exit_code == 3);
}

TEST_CASE("a plugin agrees with the verdict, and tells what is unknown all the same") {
  const auto answer = [](std::vector<FindingReport> reports, MonitorCode verdict) {
    return nagios_answer(reports, HostNames::left_out, 0, verdict);
  };
  const auto warning = a_report("a", "", MonitorCode::warning);
  const auto unknown = a_report("b", "", MonitorCode::unknown);
  CHECK(answer({unknown}, MonitorCode::ok).line.starts_with("MUSTER OK - b unknown"));
  CHECK(answer({unknown, warning}, MonitorCode::ok).exit_code == 1);
  CHECK(answer({unknown, warning}, MonitorCode::unknown).exit_code == 3);
  CHECK(answer({a_report("a", "", MonitorCode::critical)}, MonitorCode::unknown).exit_code == 3);
  CHECK(answer({unknown}, MonitorCode::critical).exit_code == 2);
  CHECK(answer({}, MonitorCode::ok).exit_code == 3);
}

TEST_CASE("a plugin whose counters have nothing to be compared with yet says so, and all is well") {
  const auto answer = [](std::vector<FindingReport> reports, int first_readings) {
    return nagios_answer(reports, HostNames::left_out, first_readings);
  };
  CHECK(answer({}, 7).exit_code == 0);
  CHECK(answer({}, 7).line ==
        "MUSTER OK - first run: 7 counters read for the first time, to be judged from the next "
        "run on | checks=0 ok=0 warning=0 critical=0 unknown=0");
  CHECK_THAT(answer({a_report("a", "", MonitorCode::ok)}, 1).line,
             ContainsSubstring("OK - all checks pass; 1 counter read for the first time"));
  CHECK(answer({a_report("a", "", MonitorCode::critical)}, 7).exit_code == 2);
  CHECK(answer({a_report("a", "", MonitorCode::unknown)}, 7).exit_code == 3);
}

TEST_CASE("a plugin's line has an end") {
  FindingReport long_one = a_report(std::string(5'000, 'x'), "", MonitorCode::critical);
  std::vector<FindingReport> reports(300, a_report("check", "device", MonitorCode::warning));
  reports.push_back(long_one);
  const PluginAnswer answer = nagios_answer(reports);
  CHECK(answer.line.size() < nagios_text_most + 200);
  CHECK_THAT(answer.line, ContainsSubstring(", 300 more |"));
}

TEST_CASE("Slurm is told to drain one node, for a reason of our own") {
  WatchedNode node;
  node.run(a_failure("ib.phys", "mlx5_3:1"), 3);
  const NodeVerdict verdict = node.verdict();
  const auto act = [&](const SlurmNode& slurm) {
    return slurm_action(slurm, node.streaks, node.rules, node.verdict());
  };
  const std::vector<std::string> drain{"scontrol", "update", "NodeName=n17", "State=DRAIN",
                                       "Reason=" + verdict.reason()};
  CHECK(act({"n17", false, ""}) == drain);
  CHECK(act({"n17", false, "an old text"}) == drain);
  CHECK_FALSE(act({"n17", true, verdict.reason() + " [root@x]"}));
  CHECK_FALSE(act({"n17", true, "fan"}));
  CHECK(slurm_exit_code(verdict) == 1);
  node.run(a_pass("ib.phys", "mlx5_3:1"), 3);
  const std::vector<std::string> undrain{"scontrol", "update", "NodeName=n17", "State=UNDRAIN"};
  CHECK(act({"n17", true, verdict.reason()}) == undrain);
  CHECK_FALSE(act({"n17", false, verdict.reason()}));
  CHECK_FALSE(act({"n17", true, "fan"}));
  CHECK(slurm_exit_code(node.verdict()) == 0);
}

TEST_CASE("no text makes Slurm drain more than one node") {
  const std::string reason = "muster:node:a:b 01234567";
  CHECK(slurm_drain("n17.x-y_z", reason));
  for (const char* name :
       {"", "ALL", "all", "n[1-9]", "n1,n2", "n1 State=DOWN", "-x", "n1\n", "n{1}", "n\xff"}) {
    INFO(name);
    CHECK_FALSE(slurm_drain(name, reason));
    CHECK_FALSE(slurm_undrain(name));
  }
  CHECK_FALSE(slurm_drain("n17", "fan"));
  CHECK_FALSE(slurm_drain("n17", ""));
}

TEST_CASE("a prolog ends with 0 only when the job may start") {
  CHECK(slurm_exit_code(PrologAnswer{StartJob{}}) == 0);
  CHECK(slurm_exit_code(PrologAnswer{TakeSpare{"x"}}) == 1);
  CHECK(slurm_exit_code(PrologAnswer{RefuseNode{"x"}}) == 1);
}

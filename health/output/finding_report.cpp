#include "health/output/finding_report.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <tuple>

#include "scheduler/model/names.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

std::optional<std::string> first_seen_of(const HealthFinding& finding, const RunFacts& run,
                                         const Streaks& streaks) {
  if (finding.status == CheckStatus::pass) return std::nullopt;
  const Streak* streak = find_streak(streaks, finding.check, finding.device, cause_code(finding));
  if (streak && streak->fault) return utc_text(streak->fault->first_seen);
  if (streak && streak->bad + streak->unknown > 0) return utc_text(streak->first_bad);
  return utc_text(run.at);
}

int badness_of(MonitorCode code) {
  constexpr int by_code[] = {0, 1, 3, 2};
  return by_code[static_cast<std::size_t>(code)];
}

std::string text_of(const ReportValue& value) {
  if (value.whole) return std::to_string(*value.whole);
  if (value.number) return plain_number(*value.number);
  return value.text.value_or("");
}

std::string state_word(const FindingReport& report) {
  if (report.code == MonitorCode::ok || report.code == MonitorCode::unknown) return report.status;
  return report.mode == "observe" ? report.status + " (observed)" : report.status;
}

std::string unless_passed(const FindingReport& report, const std::string& text) {
  return report.code == MonitorCode::ok ? std::string{} : text;
}

}  // namespace

std::string plain_number(double number) {
  std::array<char, 32> buffer{};
  char* end = buffer.data() + buffer.size();
  auto written = std::to_chars(buffer.data(), end, number, std::chars_format::fixed);
  if (written.ec != std::errc{}) written = std::to_chars(buffer.data(), end, number);
  return {buffer.data(), written.ptr};
}

ReportValue report_value(const std::string& text) {
  ReportValue value;
  const auto whole = read_integer(text);
  if (whole && std::to_string(*whole) == text) {
    value.whole = whole;
    return value;
  }
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = read.ec == std::errc{} && read.ptr == text.data() + text.size();
  if (is_number && std::isfinite(number) && plain_number(number) == text) {
    value.number = number;
  } else if (!text.empty()) {
    value.text = text;
  }
  return value;
}

FindingReport report_of(const HealthFinding& finding, double duration_ms, const RunFacts& run,
                        const CheckRules& rules, const Streaks& streaks) {
  const CheckMode mode = mode_of(rules, finding.check, finding.device);
  FindingReport report;
  report.ts = utc_text(run.at);
  report.host = run.host;
  report.boot_id = run.boot_id;
  report.check = finding.check;
  report.device = finding.device;
  report.serial = finding.serial;
  report.status = word_of(finding.status);
  report.severity = text_of(finding.severity);
  report.fault_class = word_of(finding.fault_class);
  report.value = report_value(finding.value);
  report.expected = finding.expected;
  report.unit = finding.unit;
  report.source = finding.source;
  report.duration_ms = duration_ms;
  report.mode = word(mode);
  report.finding = finding_id(finding);
  report.first_seen = first_seen_of(finding, run, streaks);
  report.evidence = finding.evidence;
  report.code = code_of(finding, mode);
  return report;
}

MonitorCode code_of(const HealthFinding& finding, CheckMode mode) {
  if (finding.status == CheckStatus::pass) return MonitorCode::ok;
  if (finding.status == CheckStatus::unknown) return MonitorCode::unknown;
  const bool is_serious = finding.severity.remedy >= Remedy::drain || finding.severity.stops_job;
  const bool drains = is_serious && finding.fault_class != FaultClass::user;
  return drains && mode == CheckMode::enforce ? MonitorCode::critical : MonitorCode::warning;
}

MonitorCode worst_code(MonitorCode a, MonitorCode b) {
  return badness_of(a) >= badness_of(b) ? a : b;
}

std::string value_text(const FindingReport& report) {
  std::string text = text_of(report.value);
  if (!text.empty() && !report.unit.empty()) text += " " + report.unit;
  return text;
}

std::vector<std::string> finding_headings() {
  return {"HOST", "CHECK", "DEVICE", "STATUS", "SEVERITY", "CLASS", "VALUE", "EXPECTED", "FINDING"};
}

std::vector<std::string> finding_row(const FindingReport& report) {
  return {report.host,
          report.check,
          report.device,
          state_word(report),
          unless_passed(report, report.severity),
          unless_passed(report, report.fault_class),
          value_text(report),
          report.expected,
          unless_passed(report, report.finding)};
}

std::vector<FindingReport> worst_first(std::vector<FindingReport> reports) {
  std::ranges::stable_sort(reports, [](const FindingReport& a, const FindingReport& b) {
    if (a.code != b.code) return worst_code(a.code, b.code) == a.code;
    return std::tie(a.host, a.check, a.device) < std::tie(b.host, b.check, b.device);
  });
  return reports;
}

}  // namespace muster

#include "health/output/finding_table.h"

#include <algorithm>
#include <tuple>

namespace muster {

namespace {

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

std::string value_text(const FindingReport& report) {
  std::string text = text_of(report.value);
  if (!text.empty() && !report.unit.empty()) text += " " + report.unit;
  return text;
}

std::vector<std::string> finding_headings() {
  return {"host", "check", "device", "status", "severity", "class", "value", "expected", "finding"};
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

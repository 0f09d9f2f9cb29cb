#include "launcher/agent/health/fault_report.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "health/checks/kernel/xid_table.h"
#include "health/model/check.h"

namespace muster {

namespace {

constexpr std::size_t evidence_told = 3;
constexpr std::size_t line_told = 300;

// 48, 95, 140, 171, 172: errors that no unit contained. 64: a row that could not be replaced is
// used on.
constexpr std::array doubtful_xids{48, 64, 95, 140, 171, 172};
constexpr std::array<std::string_view, 4> doubtful_checks{"gpu.ecc_dbe", "gpu.sram_unc",
                                                          "host.edac", "perf.sdc"};

int number_of(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool is_xid(const HealthFinding& finding) {
  return finding.check == "gpu.xid" && number_of(finding.value) > 0;
}

NodeFault fault_of(const ActiveFault& standing, bool enforced) {
  const HealthFinding& finding = standing.finding;
  NodeFault fault;
  fault.id = standing.id;
  fault.check = finding.check;
  fault.device = finding.device;
  fault.serial = finding.serial;
  fault.fault_class = finding.fault_class;
  fault.code = cause_code(finding);
  fault.remedy = finding.severity.remedy;
  fault.on_recurrence = finding.severity.on_recurrence;
  fault.stops_job = finding.severity.stops_job;
  fault.in_doubt = casts_doubt(finding);
  fault.shared_cause = has_shared_cause(finding);
  fault.enforced = enforced;
  fault.since = standing.since;
  fault.what = sentence_of(finding);
  for (const std::string& line : finding.evidence) {
    if (fault.evidence.size() == evidence_told) break;
    fault.evidence.push_back(line.substr(0, line_told));
  }
  return fault;
}

}  // namespace

std::vector<NodeFault> faults_of(const NodeVerdict& verdict) {
  std::vector<NodeFault> faults;
  for (const ActiveFault& fault : verdict.drains) faults.push_back(fault_of(fault, true));
  for (const ActiveFault& fault : verdict.would_drain) faults.push_back(fault_of(fault, false));
  for (const ActiveFault& fault : verdict.warnings) faults.push_back(fault_of(fault, true));
  return faults;
}

std::string sentence_of(const HealthFinding& finding) {
  const std::string where = finding.device.empty() ? "" : " on " + finding.device;
  if (is_xid(finding)) {
    const std::string meaning(xid_meaning(number_of(finding.value)));
    return "XID " + finding.value + where + ": " + meaning;
  }
  if (finding.status == CheckStatus::unknown) {
    const std::string why = finding.evidence.empty() ? "" : ": " + finding.evidence.front();
    return finding.check + where + " is unknown" + why;
  }
  const std::string unit = finding.unit.empty() ? "" : " " + finding.unit;
  std::string text = finding.check + where + ": " + finding.value + unit;
  if (!finding.expected.empty()) text += ", expected " + finding.expected + unit;
  return text.substr(0, line_told);
}

bool casts_doubt(const HealthFinding& finding) {
  if (finding.status != CheckStatus::fail) return false;
  if (is_xid(finding)) {
    return std::ranges::find(doubtful_xids, number_of(finding.value)) != doubtful_xids.end();
  }
  return std::ranges::find(doubtful_checks, finding.check) != doubtful_checks.end();
}

}  // namespace muster

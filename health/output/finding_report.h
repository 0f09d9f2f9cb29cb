// One finding with all that its readers ask for: a line of JSON, a row, a metric. Made once, for
// every form of output. For writing: the codec walks `fields`; a value stands there as the number
// that it is, or as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/verdict/check_rules.h"
#include "health/verdict/streaks.h"
#include "scheduler/text/clock.h"
#include "scheduler/text/fields.h"

namespace muster {

// A number only where its text is the number's own: "28.40" is a version.
struct ReportValue {
  std::optional<std::int64_t> whole;
  std::optional<double> number;
  std::optional<std::string> text;
};
ReportValue report_value(const std::string& text);
// Without an exponent where that is possible: "0.0005".
std::string plain_number(double number);

// Worse is not greater: see `worst_code`.
enum class MonitorCode { ok = 0, warning = 1, critical = 2, unknown = 3 };

struct FindingReport {
  std::string ts;  // "2026-03-01T10:00:00Z"
  std::string host;
  std::string boot_id;
  std::string check;
  std::string device;
  std::string serial;
  std::string status;
  std::string severity;  // of a failure: "!reboot>rma"
  std::string fault_class;
  ReportValue value;
  std::string expected;
  std::string unit;
  std::string source;
  double duration_ms = 0;
  std::string mode;
  std::string finding;
  std::optional<std::string> first_seen;  // of a failure
  std::vector<std::string> evidence;
  MonitorCode code = MonitorCode::unknown;  // no field of the line

  MUSTER_FIELDS(ts, host, boot_id, check, device, serial, status, severity, (class, fault_class),
                value, expected, unit, source, duration_ms, mode, finding, first_seen, evidence)
};

// Of the run that the findings come from.
struct RunFacts {
  Time at;
  std::string host;
  std::string boot_id;
};

FindingReport report_of(const HealthFinding& finding, double duration_ms, const RunFacts& run,
                        const CheckRules& rules, const Streaks& streaks);

// Whether a form that has no place for the host names it: of several hosts it must.
enum class HostNames { left_out, told };

// A failure of a check that only observes is a warning to a monitor too.
MonitorCode code_of(const HealthFinding& finding, CheckMode mode);
// Critical, then unknown, then warning: silence is worse than a warning.
MonitorCode worst_code(MonitorCode a, MonitorCode b);

// Findings for people: cells for a table, worst first. Text as it comes: whoever prints it makes it
// printable.

std::vector<std::string> finding_headings();
// As many cells as headings; an empty one means that there is nothing to say.
std::vector<std::string> finding_row(const FindingReport& report);
// Those of a monitor's worst code first, then by check and device.
std::vector<FindingReport> worst_first(std::vector<FindingReport> reports);

// "131 1/h"; the value as it was found.
std::string value_text(const FindingReport& report);

}  // namespace muster

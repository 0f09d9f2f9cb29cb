// One finding with all that its readers ask for: a line of JSON, a row, a metric. Made once, for
// every form of output. For writing: the codec walks `fields`; a value stands there as the number
// that it is, or as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/verdict/node_verdict.h"
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

// Findings as the answer of a Nagios plugin: one line and an exit code.

// Longer lines are cut by what reads them, in the middle of a number.
inline constexpr std::size_t nagios_text_most = 1024;

struct PluginAnswer {
  std::string line;  // without its end: "MUSTER CRITICAL - … | checks=96 …"
  int exit_code = 3;
};

// Nothing was checked: unknown. `verdict`: what the whole has been found to be; then checks that
// are unknown are told, and only warnings make it worse than ok. Without one the worst counts.
// Counters that a first run has nothing to compare with yet (`first_readings`) were looked at, and
// nothing is wrong with them.
PluginAnswer nagios_answer(const std::vector<FindingReport>& reports,
                           HostNames hosts = HostNames::left_out, int first_readings = 0,
                           std::optional<MonitorCode> verdict = std::nullopt);

// Findings as the text file that a node exporter reads. No job in the labels, which would make a
// series of its own each time; the host only where findings are of several: the scraper adds its
// own.

// Backslash, quote and line end escaped; what is no printable ASCII is written as `?`.
std::string prometheus_label(std::string_view text);

// The whole file. A check and device twice would make the exporter refuse it: the worst one counts.
std::string prometheus_text(const std::vector<FindingReport>& reports, Time last_run,
                            HostNames hosts = HostNames::left_out);

// What muster says to Slurm: commands as argv vectors, and exit codes of its hooks. Runs nothing.

// scontrol reads a name as a list: `n[1-9]` and `ALL` are many nodes. Such a name is no node's.
bool is_slurm_node_name(const std::string& name);

// Nothing: no name of one node, or a reason that is none.
std::optional<std::vector<std::string>> slurm_drain(const std::string& node,
                                                    const std::string& reason);
std::optional<std::vector<std::string>> slurm_undrain(const std::string& node);

struct SlurmNode {
  std::string name;
  bool is_drained = false;
  std::string reason;  // as Slurm has it
};

// What the health check program does about its node; nothing: leave it as it is.
std::optional<std::vector<std::string>> slurm_action(const SlurmNode& node, const Streaks& streaks,
                                                     const CheckRules& rules,
                                                     const NodeVerdict& verdict);

// Of a prolog: 1 drains the node and requeues the job.
inline int slurm_exit_code(const PrologAnswer& answer) {
  return std::holds_alternative<StartJob>(answer) ? 0 : 1;
}
// Of an epilog or a health check: whether a drain stands.
inline int slurm_exit_code(const NodeVerdict& verdict) {
  return verdict.is_drained() ? 1 : 0;
}

}  // namespace muster

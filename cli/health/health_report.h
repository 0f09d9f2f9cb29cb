// What one look at a node found, for people, programs and monitors. Pure.
//
// The result for machines; absent things are null:
//   ts host boot_id profile phase beside_ranks looks took_ms
//   verdict: {state: healthy|unclear|drained, reason, remedy, stops_job,
//             drains would_drain warnings: [{check, device, severity, class, finding, since,
//                                            value, expected, evidence}],
//             unclear unconfirmed: [{check, device}]}
//   hung: [{source, why}]
//   counts: {pass, fail, unknown, first_readings}: the last are counters that have nothing to be
//           compared with yet, and no finding
//   versions: {check: {what: version}}, for checks that compare nodes
//   findings: [one as a line of the form jsonl]
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/document.h"
#include "health/learn/versions.h"
#include "health/output/finding_report.h"
#include "health/verdict/node_verdict.h"

namespace muster {

// A source that gave no answer, and was waited for.
struct HungSource {
  std::string source;  // a path, or a call of the driver
  std::string why;     // "no answer within 5 s"
  friend bool operator==(const HungSource&, const HungSource&) = default;
};

struct HealthLook {
  RunFacts run;
  std::string profile;  // empty: none was known for this node
  std::string phase;    // "on-demand"
  int looks = 1;        // a second apart, as many as it took to be sure
  Milliseconds took{0};
  std::vector<FindingReport> reports;
  int first_readings = 0;  // counters that will be judged from the next run on
  NodeVerdict verdict;
  std::vector<HungSource> hung;
  bool beside_ranks = false;  // ranks run there: checks that would disturb them were left out
  NodeVersions versions;
  bool nothing_checked = false;  // of what was asked for there is nothing here
};

// What `muster health` ends with in the forms for people and programs.
enum class HealthExit { healthy = 0, drained = 1, unclear = 3 };
inline constexpr int unclear_health = static_cast<int>(HealthExit::unclear);
HealthExit health_exit(const NodeVerdict& verdict);
// Unclear too when nothing was checked: nothing speaks for the host.
HealthExit health_exit(const HealthLook& look);
// What a monitor is told for it; `named`: for exit code 1.
MonitorCode monitor_code(HealthExit exit, MonitorCode named = MonitorCode::critical);

struct HealthTextForm {
  bool all = false;  // passes too
  int width = 0;
  bool color = false;
  bool hosts = false;  // of several: each finding says of which
};
// A table of findings, worst first, and what speaks for them; empty: nothing is to be shown.
std::string findings_text(const std::vector<FindingReport>& reports, const HealthTextForm& form);
// The passes, failures and unknowns among them.
struct FindingCounts {
  std::size_t pass = 0;
  std::size_t fail = 0;
  std::size_t unknown = 0;
};
FindingCounts counts_of(const std::vector<FindingReport>& reports);
std::string health_text(const HealthLook& look, const HealthTextForm& form);
Document health_document(const HealthLook& look);
// One line of JSON for each finding.
std::string health_lines(const HealthLook& look);
// The same of the findings alone.
std::string report_lines(const std::vector<FindingReport>& reports);
Document report_document(const FindingReport& report);
// One line: how many checks passed, failed, are unknown, in how long, by which profile.
std::string summary_of(const HealthLook& look);
const char* state_word(HealthExit exit);
Document verdict_document(const NodeVerdict& verdict);

}  // namespace muster

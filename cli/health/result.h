// What `muster health` and its verbs found, of one host or of many, for people, programs and
// monitors. Every verb fills the same structs; the lists of their members are the JSON of
// `-o json`, which a node writes and whoever asked it reads, with distrust: what cannot be read is
// no answer, and no answer is never a pass. Pure, but for what prints at the end.
//
// One host for machines; absent things are null:
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
//   figures: [{metric, device, value, unit, error}], of a host that was benchmarked
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/common_options.h"
#include "cli/terminal/document.h"
#include "health/learn/profile.h"
#include "health/model/performance.h"
#include "health/output/finding_report.h"
#include "health/verdict/node_verdict.h"
#include "scheduler/text/fields.h"

namespace muster {

// What `muster health` ends with in the forms for people and programs.
enum class HealthExit { healthy = 0, drained = 1, unclear = 3 };
const char* word(HealthExit exit);
inline constexpr int unclear_health = static_cast<int>(HealthExit::unclear);

// A fault that counts.
struct FaultReport {
  std::string check;
  std::string device;
  std::string severity;
  std::string fault_class;
  std::string finding;
  std::string since;
  std::string value;
  std::string expected;
  std::vector<std::string> evidence;

  MUSTER_FIELDS(check, device, severity, (class, fault_class), finding, since, value, expected,
                evidence)
};

struct VerdictReport {
  HealthExit state = HealthExit::unclear;
  std::optional<std::string> reason;  // of the drain
  std::optional<std::string> remedy;
  bool stops_job = false;
  std::vector<FaultReport> drains;
  std::vector<FaultReport> would_drain;
  std::vector<FaultReport> warnings;
  std::vector<SampleWanted> unclear;
  std::vector<SampleWanted> unconfirmed;

  MUSTER_FIELDS(state, reason, remedy, stops_job, drains, would_drain, warnings, unclear,
                unconfirmed)

  bool is_drained() const { return state == HealthExit::drained; }
};
VerdictReport report_of(const NodeVerdict& verdict);
HealthExit health_exit(const NodeVerdict& verdict);

// Whether one of the patterns, none for all, fits the check.
bool is_asked_for(const std::vector<std::string>& patterns, std::string_view check);
// Leaves in a verdict what is about these checks.
void keep_checks(NodeVerdict& verdict, const std::function<bool(const std::string&)>& is_kept);

// A source that gave no answer, and was waited for.
struct HungSource {
  std::string source;  // a path, or a call of the driver
  std::string why;     // "no answer within 5 s"

  MUSTER_FIELDS(source, why)
  friend bool operator==(const HungSource&, const HungSource&) = default;
};

struct FindingCounts {
  std::int64_t pass = 0;
  std::int64_t fail = 0;
  std::int64_t unknown = 0;
  std::int64_t first_readings = 0;  // counters that will be judged from the next run on

  MUSTER_FIELDS(pass, fail, unknown, first_readings)
};
FindingCounts counts_of(const std::vector<FindingReport>& findings);

// Of a node that was asked; worst first.
enum class NodeFitness { drained, unreachable, unclear, ok };
const char* word(NodeFitness fitness);

struct HostHealth {
  std::string ts;
  std::string host;
  std::string boot_id;
  std::optional<std::string> profile;  // absent: none was known for this host
  std::string phase = "on-demand";
  bool beside_ranks = false;  // ranks run there: checks that would disturb them were left out
  std::int64_t looks = 1;     // a second apart, as many as it took to be sure
  std::int64_t took_ms = 0;
  VerdictReport verdict;
  std::vector<HungSource> hung;
  FindingCounts counts;  // its first_readings; the others are counted when it is written
  NodeVersions versions;
  std::vector<FindingReport> findings;

  MUSTER_FIELDS(ts, host, boot_id, profile, phase, beside_ranks, looks, took_ms, verdict, hung,
                counts, versions, findings)

  std::vector<PerformanceSample> metrics;  // all that was benchmarked, judged or not

  // Of a node of the cluster that was asked.
  std::string node;
  std::string target;
  NodeFitness fitness = NodeFitness::unreachable;
  std::string why;  // a sentence; empty: ok
  bool has_answered = false;
};

// A host's verdict with the state that follows from what it lists and what was found: unclear, when
// something serious is not confirmed, nothing was checked, or every check is unknown.
VerdictReport concluded(const HostHealth& host);

// Why nothing speaks for a host, whatever its verdict; empty: something does.
std::string why_silent(const HostHealth& host);
// "required check did not pass: gpu.count; not yet confirmed: ib.state"; empty: none.
std::string open_questions(const VerdictReport& verdict);

// Of a run that ends now. `profile`: empty: none.
HostHealth health_of(const RunFacts& run, const std::string& profile, Milliseconds took);

Document health_document(const HostHealth& host);
Document report_document(const FindingReport& finding);
Document verdict_document(const VerdictReport& verdict);
// One line of JSON for each finding.
std::string report_lines(const std::vector<FindingReport>& findings);

// What a node wrote. Its findings are of `node`. What cannot be read, or contradicts itself, is
// unclear, with a finding host.agent. `now`: utc_text.
HostHealth read_answer(const std::string& node, const std::string& target, const std::string& text,
                       const std::string& now);
// By the row of the check; observed, for whoever asks drains nothing.
FindingReport asked_report(const std::string& node, const std::string& check, CheckStatus status,
                           const std::string& now);
// Its one finding is host.agent, unknown.
HostHealth no_answer(const std::string& node, const std::string& target, const std::string& why,
                     const std::string& now);
// A node that answered is unclear when nothing speaks for it: of all that was checked nothing is
// known. Once other nodes have told what they can.
void doubt_silent(HostHealth& host, const std::string& now);
// It was reached and not benchmarked. `why`: "not started: " of one that a job has, or that is not
// idle, "not measured: " of one whose benchmark failed. Each of the `checks` is unknown.
HostHealth not_measured(const std::string& node, const std::string& target, const std::string& why,
                        const std::vector<std::string>& checks, const std::string& now);

struct HealthTextForm {
  bool all = false;  // passes too
  int width = 0;
  bool color = false;
  bool hosts = false;  // of several: each finding says of which
};
// "1 node", "2 nodes"
std::string plural(std::size_t count, const std::string& what);
// A table of findings, worst first, and what speaks for them; empty: nothing is to be shown.
std::string findings_text(const std::vector<FindingReport>& findings, const HealthTextForm& form);
// Metrics, findings, counts and what they make of it: all but the last line.
std::string health_body(const HostHealth& host, const HealthTextForm& form);
std::string health_text(const HostHealth& host, const HealthTextForm& form);
inline constexpr const char* ranks_note =
    "during a job: checks that would disturb its ranks were skipped\n";

// ---- how a verb gives its result --------------------------------------------------------------

// Where findings of several hosts say of which they are, in the forms for monitors.
enum class MonitorHosts { left_out, told, in_device };

struct HealthResult {
  Time at;
  HealthExit exit = HealthExit::unclear;
  std::vector<HostHealth> hosts;
  MonitorHosts monitor_hosts = MonitorHosts::left_out;
  MonitorCode when_named = MonitorCode::critical;  // to Nagios, with exit code 1
  // Empty: those of the one host.
  std::function<std::string(const HealthTextForm&)> text = {};
  std::function<Document()> document = {};
};
std::vector<FindingReport> findings_of(const std::vector<HostHealth>& hosts);
// "n17 mlx5_3:1": for forms that have no place for a host.
std::string on_host(const std::string& host, const std::string& device);
std::vector<FindingReport> findings_for_monitors(const HealthResult& result);

// Prints the form that is asked for; the result's exit code, or the form's own.
int report_health(const HealthResult& result, bool all, const CommonOptions& common);

// 0, or 99 after saying why.
int write_prometheus_file(const std::string& path, const HealthResult& result,
                          const CommonOptions& common);

// Writes the file, then prints.
int give_health(const HealthResult& result, bool all, const std::string& prometheus_file,
                const CommonOptions& common);

}  // namespace muster

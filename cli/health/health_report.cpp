#include "cli/health/health_report.h"

#include <nlohmann/json.hpp>

#include "cli/terminal/escape.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "health/output/finding_report.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

// Sources of a finding are few lines; more of them help nobody on a terminal.
constexpr std::size_t evidence_lines_most = 4;

// Takes the fields that a report shows, in their order.
class FieldWriter {
 public:
  explicit FieldWriter(Document& out) : out_(out) {}

  template <class T>
  void operator()(const char* name, const T& value) const {
    out_[name] = value;
  }
  template <class T>
  void operator()(const char* name, const std::optional<T>& value) const {
    if (value) out_[name] = *value;
  }

 private:
  Document& out_;
};

std::string upper(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

bool is_shown(const FindingReport& report, const HealthTextForm& form) {
  return form.all || report.status != word_of(CheckStatus::pass);
}

std::string findings_table(const std::vector<FindingReport>& reports, const HealthTextForm& form) {
  std::vector<std::string> headings;
  for (const std::string& heading : finding_headings()) headings.push_back(upper(heading));
  if (!form.hosts) headings.erase(headings.begin());
  Table table(headings);
  for (const FindingReport& report : reports) {
    if (!is_shown(report, form)) continue;
    std::vector<std::string> cells = finding_row(report);
    if (!form.hosts) cells.erase(cells.begin());
    table.add(std::move(cells));
  }
  return table.empty() ? "" : table.text(form.width, form.color);
}

std::string name_of(const std::string& check, const std::string& device) {
  return device.empty() ? check : check + " " + device;
}

std::string evidence_of(const FindingReport& report, const HealthTextForm& form) {
  const std::string host = form.hosts && !report.host.empty() ? report.host + " " : "";
  std::string text = host + name_of(report.check, report.device) + ": " + report.source + "\n";
  std::size_t shown = 0;
  for (const std::string& line : report.evidence) {
    if (++shown > evidence_lines_most) break;
    text += "  " + one_line(line) + "\n";
  }
  if (report.evidence.size() > evidence_lines_most) {
    text += "  … " + std::to_string(report.evidence.size() - evidence_lines_most) + " more\n";
  }
  return text;
}

std::string evidence_text(const std::vector<FindingReport>& reports, const HealthTextForm& form) {
  std::string text;
  for (const FindingReport& report : reports) {
    const bool is_pass = report.status == word_of(CheckStatus::pass);
    if (!is_pass && !report.evidence.empty()) text += evidence_of(report, form);
  }
  return printable(text);
}

std::string names_of(const std::vector<SampleWanted>& wanted) {
  std::string text;
  for (const SampleWanted& one : wanted) {
    text += (text.empty() ? "" : ", ") + name_of(one.check, one.device);
  }
  return text;
}

std::string fault_text(const char* what, const StandingFault& fault) {
  return std::string(what) + name_of(fault.finding.check, fault.finding.device) + ", " +
         text_of(fault.severity) + ", since " + local_text(fault.first_seen) + "\n";
}

// The worst of them as an example.
std::string how_to_enforce(const StandingFault& fault, const HealthLook& look) {
  return "to make it drain: `" + fault.finding.check + ": {mode: enforce}` under `checks:` of " +
         (look.profile.empty() ? "a profile" : "a profile over " + look.profile) +
         " (docs/health.md)\n";
}

std::string verdict_text(const HealthLook& look, bool color) {
  const NodeVerdict& verdict = look.verdict;
  std::string text;
  for (const StandingFault& fault : verdict.drains) text += fault_text("drains: ", fault);
  for (const StandingFault& fault : verdict.would_drain) {
    text += fault_text("would drain (observe mode): ", fault);
  }
  if (!verdict.would_drain.empty()) text += how_to_enforce(verdict.would_drain.front(), look);
  if (!verdict.unclear.empty())
    text += "required check did not pass: " + names_of(verdict.unclear) + "\n";
  if (!verdict.unconfirmed.empty()) {
    text += "failed, not yet confirmed: " + names_of(verdict.unconfirmed) + "\n";
  }
  const HealthExit exit = health_exit(look);
  const std::string host = one_line(look.run.host);
  if (exit == HealthExit::drained) {
    return printable(text) + inked(host + " unavailable", Ink::red, color) + ": " +
           one_line(verdict.reason()) + "\n";
  }
  if (exit == HealthExit::unclear) {
    return printable(text) + inked(host + " is unknown", Ink::yellow, color) +
           (look.nothing_checked ? ": nothing was checked\n" : "\n");
  }
  return printable(text) + inked(host + " is ready", Ink::green, color) + "\n";
}

Document faults_document(const std::vector<StandingFault>& faults) {
  Document all = Document::array();
  for (const StandingFault& fault : faults) {
    Document one;
    one["check"] = fault.finding.check;
    one["device"] = fault.finding.device;
    one["severity"] = text_of(fault.severity);
    one["class"] = word_of(fault.finding.fault_class);
    one["finding"] = fault.id;
    one["since"] = utc_text(fault.first_seen);
    one["value"] = fault.finding.value;
    one["expected"] = fault.finding.expected;
    one["evidence"] = fault.finding.evidence;
    all.push_back(std::move(one));
  }
  return all;
}

Document samples_document(const std::vector<SampleWanted>& wanted) {
  Document all = Document::array();
  for (const SampleWanted& one : wanted) {
    all.push_back(Document{{"check", one.check}, {"device", one.device}});
  }
  return all;
}

}  // namespace

HealthExit health_exit(const NodeVerdict& verdict) {
  if (verdict.is_drained()) return HealthExit::drained;
  const bool is_open = !verdict.unclear.empty() || !verdict.unconfirmed.empty();
  return is_open ? HealthExit::unclear : HealthExit::healthy;
}

HealthExit health_exit(const HealthLook& look) {
  const HealthExit exit = health_exit(look.verdict);
  return exit == HealthExit::healthy && look.nothing_checked ? HealthExit::unclear : exit;
}

MonitorCode monitor_code(HealthExit exit, MonitorCode named) {
  return exit == HealthExit::drained   ? named
         : exit == HealthExit::unclear ? MonitorCode::unknown
                                       : MonitorCode::ok;
}

Document report_document(const FindingReport& report) {
  Document out;
  FindingReport::fields(report, FieldWriter(out));
  return out;
}

const char* state_word(HealthExit exit) {
  return exit == HealthExit::drained   ? "drained"
         : exit == HealthExit::unclear ? "unclear"
                                       : "healthy";
}

Document verdict_document(const NodeVerdict& verdict) {
  Document out;
  out["state"] = state_word(health_exit(verdict));
  out["reason"] = verdict.is_drained() ? Document(verdict.reason()) : Document(nullptr);
  out["remedy"] = verdict.is_drained() ? Document(word_of(verdict.worst())) : Document(nullptr);
  out["stops_job"] = verdict.stops_job();
  out["drains"] = faults_document(verdict.drains);
  out["would_drain"] = faults_document(verdict.would_drain);
  out["warnings"] = faults_document(verdict.warnings);
  out["unclear"] = samples_document(verdict.unclear);
  out["unconfirmed"] = samples_document(verdict.unconfirmed);
  return out;
}

FindingCounts counts_of(const std::vector<FindingReport>& reports) {
  FindingCounts counts;
  for (const FindingReport& report : reports) {
    if (report.status == word_of(CheckStatus::pass)) ++counts.pass;
    if (report.status == word_of(CheckStatus::fail)) ++counts.fail;
    if (report.status == word_of(CheckStatus::unknown)) ++counts.unknown;
  }
  return counts;
}

std::string findings_text(const std::vector<FindingReport>& all, const HealthTextForm& form) {
  const auto reports = worst_first(all);
  std::string text = findings_table(reports, form);
  const std::string evidence = evidence_text(reports, form);
  if (!evidence.empty()) text += "\n" + evidence;
  return text;
}

std::string summary_of(const HealthLook& look) {
  const FindingCounts counts = counts_of(look.reports);
  std::string text = std::to_string(counts.pass) +
                     (counts.pass == 1 ? " check passed, " : " checks passed, ") +
                     std::to_string(counts.fail) + " failed, " + std::to_string(counts.unknown) +
                     " unknown, in " + elapsed_text(look.took);
  if (look.first_readings > 0) {
    text += ", and " + std::to_string(look.first_readings) + " counters read for the first time";
  }
  if (look.looks > 1) text += " (" + std::to_string(look.looks) + " looks)";
  return text + "; " + (look.profile.empty() ? "no profile" : "profile " + look.profile) + "\n";
}

std::string health_text(const HealthLook& look, const HealthTextForm& form) {
  std::string text = findings_text(look.reports, form);
  if (!text.empty()) text += "\n";
  if (look.beside_ranks) text += "during a job: checks that would disturb its ranks were skipped\n";
  for (const HungSource& hung : look.hung) {
    text += inked("hung", Ink::red, form.color) + ": " + one_line(hung.source) + ": " +
            one_line(hung.why) + "\n";
  }
  return text + printable(summary_of(look)) + verdict_text(look, form.color);
}

Document health_document(const HealthLook& look) {
  const FindingCounts counts = counts_of(look.reports);
  Document out;
  out["ts"] = utc_text(look.run.at);
  out["host"] = look.run.host;
  out["boot_id"] = look.run.boot_id;
  out["profile"] = look.profile.empty() ? Document(nullptr) : Document(look.profile);
  out["phase"] = look.phase;
  out["beside_ranks"] = look.beside_ranks;
  out["looks"] = look.looks;
  out["took_ms"] = look.took.count();
  out["verdict"] = verdict_document(look.verdict);
  out["verdict"]["state"] = state_word(health_exit(look));
  out["hung"] = Document::array();
  for (const HungSource& hung : look.hung) {
    out["hung"].push_back(Document{{"source", hung.source}, {"why", hung.why}});
  }
  out["counts"] = Document{{"pass", counts.pass},
                           {"fail", counts.fail},
                           {"unknown", counts.unknown},
                           {"first_readings", look.first_readings}};
  out["versions"] = Document::object();
  for (const auto& [check, facts] : look.versions) {
    out["versions"][check] = Document::object();
    for (const auto& [what, version] : facts) out["versions"][check][what] = version;
  }
  out["findings"] = Document::array();
  for (const FindingReport& report : worst_first(look.reports)) {
    out["findings"].push_back(report_document(report));
  }
  return out;
}

std::string health_lines(const HealthLook& look) {
  return report_lines(look.reports);
}

std::string report_lines(const std::vector<FindingReport>& reports) {
  std::string text;
  for (const FindingReport& report : reports) {
    text += document_line(report_document(report)) + "\n";
  }
  return text;
}

}  // namespace muster

#include "cli/health/result.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <nlohmann/json.hpp>

#include "cli/terminal/escape.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "health/model/check.h"
#include "health/model/performance.h"
#include "health/output/finding_report.h"
#include "launcher/os/read_file.h"
#include "launcher/wire/json_fields.h"
#include "scheduler/model/exit_code.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::pair<HealthExit, const char*> exits[] = {{HealthExit::healthy, "healthy"},
                                                        {HealthExit::drained, "drained"},
                                                        {HealthExit::unclear, "unclear"}};

// Sources of a finding are few lines; more of them help nobody on a terminal.
constexpr std::size_t evidence_lines_most = 4;
constexpr const char* fitness_words[] = {"drained", "unreachable", "unclear", "ok"};

// ---- members to JSON --------------------------------------------------------------------------

template <class T>
Document to_document(const T& value) {
  if constexpr (HasFields<T>) {
    Document out = Document::object();
    T::fields(value, [&](const char* name, const auto& member) {
      Document one = to_document(member);
      // What a finding lacks leaves no trace.
      const bool is_left_out = std::is_same_v<T, FindingReport> && one.is_null();
      if (!is_left_out) out[name] = std::move(one);
    });
    return out;
  } else if constexpr (std::is_same_v<T, ReportValue>) {
    return value.whole    ? Document(*value.whole)
           : value.number ? Document(*value.number)
                          : to_document(value.text);
  } else if constexpr (requires { value.has_value(); }) {
    return value ? to_document(*value) : Document(nullptr);
  } else if constexpr (requires { typename T::mapped_type; }) {
    Document out = Document::object();
    for (const auto& [key, item] : value) out[key] = to_document(item);
    return out;
  } else if constexpr (requires { value.front(); } && !std::is_same_v<T, std::string>) {
    Document out = Document::array();
    for (const auto& item : value) out.push_back(to_document(item));
    return out;
  } else if constexpr (std::is_same_v<T, HealthExit>) {
    return word(value);
  } else {
    return value;
  }
}

std::string unit_of(const PerformanceSample& sample) {
  const PerformanceMetric* metric = find_performance_metric(sample.metric);
  return metric == nullptr ? "" : std::string(metric->unit);
}

Document metrics_document(const std::vector<PerformanceSample>& metrics) {
  return list_of(metrics, [](const PerformanceSample& one) {
    return Document{{"metric", one.metric},
                    {"device", one.device},
                    {"value", to_document(one.value)},
                    {"unit", unit_of(one)},
                    {"error", one.value ? Document(nullptr) : Document(one.error)}};
  });
}

// ---- a verdict in words -----------------------------------------------------------------------

std::string name_of(const std::string& check, const std::string& device) {
  return device.empty() ? check : check + " " + device;
}

std::string names_of(const std::vector<SampleWanted>& checks) {
  std::vector<std::string> names;
  for (const SampleWanted& one : checks) names.push_back(name_of(one.check, one.device));
  return joined(names);
}

// Of a node's verdict, or what is told of it.
template <class Verdict>
HealthExit exit_by_lists(const Verdict& verdict) {
  if (!verdict.drains.empty()) return HealthExit::drained;
  const bool is_open = !verdict.unclear.empty() || !verdict.unconfirmed.empty();
  return is_open ? HealthExit::unclear : HealthExit::healthy;
}

// ---- for people -------------------------------------------------------------------------------

std::string findings_table(const std::vector<FindingReport>& findings, const HealthTextForm& form) {
  std::vector<std::string> headings = finding_headings();
  if (!form.hosts) headings.erase(headings.begin());
  Table table(headings);
  for (const FindingReport& finding : findings) {
    if (!form.all && finding.status == word_of(CheckStatus::pass)) continue;
    std::vector<std::string> cells = finding_row(finding);
    if (!form.hosts) cells.erase(cells.begin());
    table.add(std::move(cells));
  }
  return table.empty() ? "" : table.text(form.width, form.color);
}

std::string evidence_of(const FindingReport& finding, const HealthTextForm& form) {
  const std::string host = form.hosts && !finding.host.empty() ? finding.host + " " : "";
  std::string text = host + name_of(finding.check, finding.device) + ": " + finding.source + "\n";
  std::size_t shown = 0;
  for (const std::string& line : finding.evidence) {
    if (++shown > evidence_lines_most) break;
    text += "  " + one_line(line) + "\n";
  }
  if (finding.evidence.size() > evidence_lines_most) {
    text += "  … " + std::to_string(finding.evidence.size() - evidence_lines_most) + " more\n";
  }
  return text;
}

std::string metrics_table(const HostHealth& host, const HealthTextForm& form) {
  Table table({"MEASURED", "DEVICE", "VALUE", "UNIT"});
  for (const PerformanceSample& one : host.metrics) {
    table.add({one.metric, one.device, one.value ? plain_number(*one.value) : one.error,
               one.value ? unit_of(one) : ""});
  }
  return table.empty() ? "" : printable(table.text(form.width, form.color) + "\n");
}

// How many checks passed, failed, are unknown, in how long, by which profile.
std::string summary_of(const HostHealth& host) {
  const FindingCounts counts = counts_of(host.findings);
  std::string text = plural(static_cast<std::size_t>(counts.pass), "check") + " passed, " +
                     std::to_string(counts.fail) + " failed, " + std::to_string(counts.unknown) +
                     " unknown, in " + elapsed_text(Milliseconds{host.took_ms});
  if (host.counts.first_readings > 0) {
    text +=
        ", and " + std::to_string(host.counts.first_readings) + " counters read for the first time";
  }
  if (host.looks > 1) text += " (" + std::to_string(host.looks) + " looks)";
  return text + "; " + (host.profile ? "profile " + *host.profile : "no profile") + "\n";
}

std::string fault_line(const char* what, const FaultReport& fault) {
  return what + name_of(fault.check, fault.device) + ", " + fault.severity + ", since " +
         fault.since + "\n";
}

std::string verdict_lines(const HostHealth& host) {
  const VerdictReport& verdict = host.verdict;
  std::string text;
  for (const FaultReport& fault : verdict.drains) text += fault_line("drains: ", fault);
  for (const FaultReport& fault : verdict.would_drain) {
    text += fault_line("would drain (observe mode): ", fault);
  }
  if (!verdict.would_drain.empty()) {  // the worst of them as an example
    text += "to make it drain: `" + verdict.would_drain.front().check +
            ": {mode: enforce}` under `checks:` of " +
            (host.profile ? "a profile over " + *host.profile : "a profile") +
            " (docs/health.md)\n";
  }
  if (!verdict.unclear.empty()) {
    text += "required check did not pass: " + names_of(verdict.unclear) + "\n";
  }
  if (!verdict.unconfirmed.empty()) {
    text += "failed, not yet confirmed: " + names_of(verdict.unconfirmed) + "\n";
  }
  return text;
}

std::string last_line(const HostHealth& host, bool color) {
  const std::string name = one_line(host.host);
  const VerdictReport& verdict = host.verdict;
  if (verdict.is_drained()) {
    return inked(name + " unavailable", Ink::red, color) + ": " +
           one_line(verdict.reason.value_or("")) + "\n";
  }
  if (verdict.state == HealthExit::healthy) {
    return inked(name + " is ready", Ink::green, color) + "\n";
  }
  const bool is_reported = !verdict.unclear.empty() || !verdict.unconfirmed.empty();
  const std::string why = is_reported ? "" : why_silent(host);
  return inked(name + " is unknown", Ink::yellow, color) + (why.empty() ? "" : ": " + why) + "\n";
}

// ---- a verdict --------------------------------------------------------------------------------

std::vector<FaultReport> faults_of(const std::vector<ActiveFault>& faults) {
  std::vector<FaultReport> all;
  for (const ActiveFault& fault : faults) {
    const HealthFinding& of = fault.finding;
    all.push_back({of.check, of.device, text_of(fault.severity),
                   std::string(word_of(of.fault_class)), fault.id, utc_text(fault.first_seen),
                   of.value, of.expected, of.evidence});
  }
  return all;
}

MonitorCode monitor_code(const HealthResult& result) {
  return result.exit == HealthExit::drained   ? result.when_named
         : result.exit == HealthExit::unclear ? MonitorCode::unknown
                                              : MonitorCode::ok;
}

HostNames host_names(const HealthResult& result) {
  return result.monitor_hosts == MonitorHosts::told ? HostNames::told : HostNames::left_out;
}

PluginAnswer plugin_answer(const HealthResult& result) {
  std::int64_t first_readings = 0;
  for (const HostHealth& host : result.hosts) first_readings += host.counts.first_readings;
  return nagios_answer(findings_for_monitors(result), host_names(result),
                       static_cast<int>(first_readings), monitor_code(result));
}

}  // namespace

const char* word(NodeFitness fitness) {
  return fitness_words[static_cast<std::size_t>(fitness)];
}

const char* word(HealthExit exit) {
  return std::ranges::find(exits, exit, &std::pair<HealthExit, const char*>::first)->second;
}

HealthExit health_exit(const NodeVerdict& verdict) {
  return exit_by_lists(verdict);
}

std::string why_silent(const HostHealth& host) {
  const auto is_known = [](const FindingReport& one) { return one.code != MonitorCode::unknown; };
  const auto is_number = [](const PerformanceSample& one) { return one.value.has_value(); };
  if (host.counts.first_readings > 0 || std::ranges::any_of(host.findings, is_known) ||
      std::ranges::any_of(host.metrics, is_number)) {
    return {};
  }
  return host.findings.empty() ? "nothing was checked" : "every check is unknown";
}

std::string open_questions(const VerdictReport& verdict) {
  std::vector<std::string> why;
  if (!verdict.unclear.empty()) {
    why.push_back("required check did not pass: " + names_of(verdict.unclear));
  }
  if (!verdict.unconfirmed.empty()) {
    why.push_back("not yet confirmed: " + names_of(verdict.unconfirmed));
  }
  return joined(why, "; ");
}

VerdictReport concluded(const HostHealth& host) {
  VerdictReport verdict = host.verdict;
  verdict.state = exit_by_lists(verdict);
  if (verdict.state != HealthExit::healthy) return verdict;
  // Of a link that is still settling nothing is believed yet, and it is no pass.
  for (const FindingReport& one : host.findings) {
    if (one.code == MonitorCode::critical) verdict.unconfirmed.push_back({one.check, one.device});
  }
  const bool is_healthy = verdict.unconfirmed.empty() && why_silent(host).empty();
  if (!is_healthy) verdict.state = HealthExit::unclear;
  return verdict;
}

bool is_asked_for(const std::vector<std::string>& patterns, std::string_view check) {
  return patterns.empty() || std::ranges::any_of(patterns, [&](const std::string& pattern) {
           return fits_pattern(pattern, check);
         });
}

void keep_checks(NodeVerdict& verdict, const std::function<bool(const std::string&)>& is_kept) {
  for (auto* faults : {&verdict.drains, &verdict.would_drain, &verdict.warnings}) {
    std::erase_if(*faults, [&](const ActiveFault& one) { return !is_kept(one.finding.check); });
  }
  const auto is_other = [&](const SampleWanted& one) { return !is_kept(one.check); };
  std::erase_if(verdict.unclear, is_other);
  std::erase_if(verdict.unconfirmed, is_other);
}

VerdictReport report_of(const NodeVerdict& verdict) {
  VerdictReport report;
  report.state = health_exit(verdict);
  if (verdict.is_drained()) {
    report.reason = verdict.reason();
    report.remedy = word_of(verdict.worst());
  }
  report.stops_job = verdict.stops_job();
  report.drains = faults_of(verdict.drains);
  report.would_drain = faults_of(verdict.would_drain);
  report.warnings = faults_of(verdict.warnings);
  report.unclear = verdict.unclear;
  report.unconfirmed = verdict.unconfirmed;
  return report;
}

FindingCounts counts_of(const std::vector<FindingReport>& findings) {
  FindingCounts counts;
  for (const FindingReport& finding : findings) {
    if (finding.status == word_of(CheckStatus::pass)) ++counts.pass;
    if (finding.status == word_of(CheckStatus::fail)) ++counts.fail;
    if (finding.status == word_of(CheckStatus::unknown)) ++counts.unknown;
  }
  return counts;
}

HostHealth health_of(const RunFacts& run, const std::string& profile, Milliseconds took) {
  HostHealth host;
  host.ts = utc_text(run.at);
  host.host = run.host;
  host.boot_id = run.boot_id;
  if (!profile.empty()) host.profile = profile;
  host.took_ms = took.count();
  return host;
}

Document health_document(const HostHealth& of) {
  HostHealth host = of;
  host.counts = counts_of(host.findings);
  host.counts.first_readings = of.counts.first_readings;
  host.findings = worst_first(std::move(host.findings));
  Document out = to_document(host);
  if (!host.metrics.empty()) out["figures"] = metrics_document(host.metrics);
  return out;
}

Document report_document(const FindingReport& finding) {
  return to_document(finding);
}

Document verdict_document(const VerdictReport& verdict) {
  return to_document(verdict);
}

std::string report_lines(const std::vector<FindingReport>& findings) {
  std::string text;
  for (const FindingReport& finding : findings) {
    text += document_line(report_document(finding)) + "\n";
  }
  return text;
}

std::string plural(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string findings_text(const std::vector<FindingReport>& all, const HealthTextForm& form) {
  const auto findings = worst_first(all);
  std::string text = findings_table(findings, form);
  std::string evidence;
  for (const FindingReport& finding : findings) {
    const bool is_pass = finding.status == word_of(CheckStatus::pass);
    if (!is_pass && !finding.evidence.empty()) evidence += evidence_of(finding, form);
  }
  if (!evidence.empty()) text += "\n" + printable(evidence);
  return text;
}

std::string health_body(const HostHealth& host, const HealthTextForm& form) {
  std::string text = findings_text(host.findings, form);
  if (!text.empty()) text += "\n";
  if (host.beside_ranks) text += ranks_note;
  for (const HungSource& hung : host.hung) {
    text += inked("hung", Ink::red, form.color) + ": " + one_line(hung.source) + ": " +
            one_line(hung.why) + "\n";
  }
  return metrics_table(host, form) + text + printable(summary_of(host) + verdict_lines(host));
}

std::string health_text(const HostHealth& host, const HealthTextForm& form) {
  return health_body(host, form) + last_line(host, form.color);
}

std::vector<FindingReport> findings_of(const std::vector<HostHealth>& hosts) {
  std::vector<FindingReport> all;
  for (const HostHealth& host : hosts) {
    all.insert(all.end(), host.findings.begin(), host.findings.end());
  }
  return all;
}

std::string on_host(const std::string& host, const std::string& device) {
  return host + (host.empty() || device.empty() ? "" : " ") + device;
}

std::vector<FindingReport> findings_for_monitors(const HealthResult& result) {
  std::vector<FindingReport> findings = findings_of(result.hosts);
  if (result.monitor_hosts != MonitorHosts::in_device) return findings;
  for (FindingReport& one : findings) one.device = on_host(one.host, one.device);
  return findings;
}

int report_health(const HealthResult& result, bool all, const CommonOptions& common) {
  if (common.output == OutputFormat::nagios) {
    const PluginAnswer answer = plugin_answer(result);
    write_all(Stream::out, answer.line + "\n");
    return answer.exit_code;
  }
  if (common.output == OutputFormat::prometheus) {
    const auto findings = findings_for_monitors(result);
    write_all(Stream::out, prometheus_text(findings, result.at, host_names(result)));
  } else if (common.output == OutputFormat::jsonl) {
    write_all(Stream::out, report_lines(findings_of(result.hosts)));
  } else if (wants_table(common)) {
    const int width = is_terminal(Stream::out) ? terminal_width(Stream::out) : 0;
    const HealthTextForm form{all, width, wants_color(common.color, Stream::out)};
    write_all(Stream::out,
              result.text ? result.text(form) : health_text(result.hosts.front(), form));
  } else {
    Document document = result.document ? result.document() : health_document(result.hosts.front());
    if (common.output == OutputFormat::tsv && common.query.empty()) {
      document = document.contains("findings") ? Document(document["findings"])
                                               : to_document(findings_of(result.hosts));
    }
    const int printed = print_document(document, common);
    if (printed != 0) return printed;
  }
  return static_cast<int>(result.exit);
}

int write_prometheus_file(const std::string& path, const HealthResult& result,
                          const CommonOptions& common) {
  if (path.empty()) return 0;
  constexpr mode_t readable = 0644;
  const std::string text =
      prometheus_text(findings_for_monitors(result), result.at, host_names(result));
  if (replace_file(path, text, readable, Durable::in_cache)) return 0;
  print_error("cannot write " + path + ": " + std::strerror(errno), common);
  return static_cast<int>(ExitCode::internal);
}

int give_health(const HealthResult& result, bool all, const std::string& prometheus_file,
                const CommonOptions& common) {
  const int written = write_prometheus_file(prometheus_file, result, common);
  const int code = report_health(result, all, common);
  return written != 0 ? written : code;
}

}  // namespace muster

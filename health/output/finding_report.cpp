#include "health/output/finding_report.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>

#include "scheduler/model/names.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

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

constexpr std::array<std::string_view, 4> nagios_words{"OK", "WARNING", "CRITICAL", "UNKNOWN"};

std::size_t index_of(MonitorCode code) {
  return static_cast<std::size_t>(code);
}

// `|` begins the numbers.
std::string on_one_line(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e || c == '|') c = c == '|' ? '/' : '?';
  }
  return text;
}

std::string sentence_of(const FindingReport& report, HostNames hosts) {
  std::string text = hosts == HostNames::told ? report.host + " " : "";
  text += report.check;
  if (!report.device.empty()) text += " " + report.device;
  const std::string value = value_text(report);
  if (report.code == MonitorCode::unknown) {
    const std::string why = report.evidence.empty() ? value : report.evidence.front();
    return text + " unknown" + (why.empty() ? "" : ": " + why);
  }
  if (!value.empty()) text += " " + value;
  if (!report.expected.empty()) text += " (expected " + report.expected + ")";
  return text;
}

std::string list_of(const std::vector<FindingReport>& worst_ones, HostNames hosts) {
  std::string text;
  std::size_t told = 0;
  for (const FindingReport& report : worst_ones) {
    if (report.code == MonitorCode::ok) break;
    const std::string next = on_one_line(sentence_of(report, hosts));
    if (told > 0 && text.size() + next.size() > nagios_text_most) break;
    text += (told > 0 ? ", " : "") + next.substr(0, nagios_text_most);
    told += 1;
  }
  std::size_t all = 0;
  for (const FindingReport& report : worst_ones) all += report.code != MonitorCode::ok;
  if (all > told) text += ", " + std::to_string(all - told) + " more";
  return text;
}

std::string all_well_text(std::size_t reports, int first_readings) {
  const std::string counters =
      first_readings == 0
          ? ""
          : std::to_string(first_readings) + (first_readings == 1 ? " counter" : " counters") +
                " read for the first time, to be judged from the next run on";
  if (reports > 0) return "all checks pass" + (counters.empty() ? "" : "; " + counters);
  return counters.empty() ? "nothing was checked" : "first run: " + counters;
}

std::string totals_of(const std::vector<FindingReport>& reports) {
  std::array<std::size_t, 4> counts{};
  for (const FindingReport& report : reports) counts.at(index_of(report.code)) += 1;
  return "checks=" + std::to_string(reports.size()) + " ok=" + std::to_string(counts[0]) +
         " warning=" + std::to_string(counts[1]) + " critical=" + std::to_string(counts[2]) +
         " unknown=" + std::to_string(counts[3]);
}

// The lines of a metric, by their labels; those without any have none.
std::string gauge(const std::string& metric, std::string_view help,
                  const std::map<std::string, std::string>& values) {
  std::string text =
      "# HELP " + metric + " " + std::string(help) + "\n# TYPE " + metric + " gauge\n";
  for (const auto& [labels, value] : values)
    text += metric + (labels.empty() ? " " : "{" + labels + "} ") + value + "\n";
  return text;
}

// Of the finding's host, with what divides it from the next label; empty where none is told.
std::string host_label(const FindingReport& report, HostNames hosts) {
  return hosts == HostNames::told ? "host=\"" + prometheus_label(report.host) + "\"," : "";
}

std::string check_lines(const std::vector<FindingReport>& reports, HostNames hosts) {
  std::map<std::string, MonitorCode> codes;
  for (const FindingReport& report : reports) {
    const std::string labels = host_label(report, hosts) + "check=\"" +
                               prometheus_label(report.check) + "\",device=\"" +
                               prometheus_label(report.device) + "\"";
    const auto [at, is_first] = codes.emplace(labels, report.code);
    if (!is_first) at->second = worst_code(at->second, report.code);
  }
  std::map<std::string, std::string> values;
  for (const auto& [labels, code] : codes) values[labels] = std::to_string(static_cast<int>(code));
  return gauge("muster_health_check", "State of a check: 0 ok, 1 warning, 2 critical, 3 unknown.",
               values);
}

// A clock's mistake is no number for a metric.
double seconds_of(const FindingReport& report) {
  return std::isfinite(report.duration_ms) ? std::max(0.0, report.duration_ms) / 1000 : 0;
}

// Of all devices together.
std::string duration_lines(const std::vector<FindingReport>& reports, HostNames hosts) {
  std::map<std::string, double> durations;
  for (const FindingReport& report : reports) {
    const std::string check = "check=\"" + prometheus_label(report.check) + "\"";
    durations[host_label(report, hosts) + check] += seconds_of(report);
  }
  std::map<std::string, std::string> values;
  for (const auto& [labels, duration] : durations) values[labels] = plain_number(duration);
  return gauge("muster_health_duration_seconds", "Time that a check took, on all devices.", values);
}

std::string last_run_line(Time last_run) {
  const std::int64_t ms = std::max<std::int64_t>(0, to_ms(last_run));
  const std::string fraction = std::to_string(1000 + ms % 1000).substr(1);
  return gauge("muster_health_last_run_timestamp_seconds", "When the checks ran last.",
               {{"", std::to_string(ms / 1000) + "." + fraction}});
}

// The driver's own word for what a GPU needs.
std::string recovery_lines(const std::vector<FindingReport>& reports, HostNames hosts) {
  std::map<std::string, std::int64_t> actions;
  for (const FindingReport& report : reports) {
    if (report.check != "gpu.recovery_action" || !report.value.whole) continue;
    const std::string_view device = report.device;
    const std::string_view index = device.starts_with("gpu") ? device.substr(3) : device;
    const std::string labels =
        host_label(report, hosts) + "gpu=\"" + prometheus_label(index) + "\"";
    const auto [at, is_first] = actions.emplace(labels, *report.value.whole);
    if (!is_first) at->second = std::max(at->second, *report.value.whole);
  }
  if (actions.empty()) return {};
  std::map<std::string, std::string> values;
  for (const auto& [labels, action] : actions) values[labels] = std::to_string(action);
  return gauge("muster_health_recovery_action",
               "What the driver asks for: 0 nothing, 1 GPU reset, 2 node reboot.", values);
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

PluginAnswer nagios_answer(const std::vector<FindingReport>& reports, HostNames hosts,
                           int first_readings, std::optional<MonitorCode> verdict) {
  const bool is_nothing = reports.empty() && first_readings == 0;
  MonitorCode worst = is_nothing ? MonitorCode::unknown : verdict.value_or(MonitorCode::ok);
  for (const FindingReport& report : reports) {
    const bool counts =
        !verdict || (verdict == MonitorCode::ok && report.code != MonitorCode::unknown);
    if (counts) worst = worst_code(worst, report.code);
  }
  std::string told = list_of(worst_first(reports), hosts);
  if (told.empty()) told = all_well_text(reports.size(), first_readings);
  return {"MUSTER " + std::string(nagios_words.at(index_of(worst))) + " - " + told + " | " +
              totals_of(reports),
          static_cast<int>(worst)};
}

std::string prometheus_label(std::string_view text) {
  std::string label;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\' || c == '"') {
      label += '\\';
      label += c;
    } else if (c == '\n') {
      label += "\\n";
    } else {
      label += byte < 0x20 || byte > 0x7e ? '?' : c;
    }
  }
  return label;
}

std::string prometheus_text(const std::vector<FindingReport>& reports, Time last_run,
                            HostNames hosts) {
  return check_lines(reports, hosts) + duration_lines(reports, hosts) + last_run_line(last_run) +
         recovery_lines(reports, hosts);
}

bool is_slurm_node_name(const std::string& name) {
  return is_word_of(name, "._-") && name.front() != '-' && lower_case(name) != "all";
}

std::optional<std::vector<std::string>> slurm_drain(const std::string& node,
                                                    const std::string& reason) {
  if (!is_slurm_node_name(node) || !parse_drain_reason(reason)) return std::nullopt;
  return std::vector<std::string>{"scontrol", "update", "NodeName=" + node, "State=DRAIN",
                                  "Reason=" + reason};
}

std::optional<std::vector<std::string>> slurm_undrain(const std::string& node) {
  if (!is_slurm_node_name(node)) return std::nullopt;
  // RESUME would also bring back a node that is down.
  return std::vector<std::string>{"scontrol", "update", "NodeName=" + node, "State=UNDRAIN"};
}

std::optional<std::vector<std::string>> slurm_action(const SlurmNode& node, const Streaks& streaks,
                                                     const CheckRules& rules,
                                                     const NodeVerdict& verdict) {
  if (verdict.is_drained()) {
    const auto reason = reason_to_set(node.is_drained ? node.reason : std::string{}, verdict);
    return reason ? slurm_drain(node.name, *reason) : std::nullopt;
  }
  if (!node.is_drained || why_drain_stays(node.reason, streaks, rules, verdict)) {
    return std::nullopt;
  }
  return slurm_undrain(node.name);
}

}  // namespace muster

#include "health/output/monitors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace muster {

namespace {

constexpr std::array<std::string_view, 4> code_words{"OK", "WARNING", "CRITICAL", "UNKNOWN"};

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
  return {"MUSTER " + std::string(code_words.at(index_of(worst))) + " - " + told + " | " +
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

}  // namespace muster

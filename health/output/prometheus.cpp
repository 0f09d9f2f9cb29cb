#include "health/output/prometheus.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace muster {

namespace {

std::string head_of(std::string_view metric, std::string_view help) {
  return "# HELP " + std::string(metric) + " " + std::string(help) + "\n# TYPE " +
         std::string(metric) + " gauge\n";
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
  std::string text =
      head_of("muster_health_check", "State of a check: 0 ok, 1 warning, 2 critical, 3 unknown.");
  for (const auto& [labels, code] : codes) {
    text += "muster_health_check{" + labels + "} " + std::to_string(static_cast<int>(code)) + "\n";
  }
  return text;
}

// A clock's mistake is no number for a metric.
double seconds_of(const FindingReport& report) {
  return std::isfinite(report.duration_ms) ? std::max(0.0, report.duration_ms) / 1000 : 0;
}

// Of all devices together.
std::string duration_lines(const std::vector<FindingReport>& reports, HostNames hosts) {
  std::map<std::string, double> seconds;
  for (const FindingReport& report : reports) {
    const std::string check = "check=\"" + prometheus_label(report.check) + "\"";
    seconds[host_label(report, hosts) + check] += seconds_of(report);
  }
  std::string text =
      head_of("muster_health_duration_seconds", "Time that a check took, on all devices.");
  for (const auto& [labels, duration] : seconds) {
    text += "muster_health_duration_seconds{" + labels + "} " + plain_number(duration) + "\n";
  }
  return text;
}

std::string last_run_line(Time last_run) {
  const std::int64_t ms = std::max<std::int64_t>(0, to_ms(last_run));
  const std::string fraction = std::to_string(1000 + ms % 1000).substr(1);
  return head_of("muster_health_last_run_timestamp_seconds", "When the checks ran last.") +
         "muster_health_last_run_timestamp_seconds " + std::to_string(ms / 1000) + "." + fraction +
         "\n";
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
  std::string text = head_of("muster_health_recovery_action",
                             "What the driver asks for: 0 nothing, 1 GPU reset, 2 node reboot.");
  for (const auto& [labels, action] : actions) {
    text += "muster_health_recovery_action{" + labels + "} " + std::to_string(action) + "\n";
  }
  return text;
}

}  // namespace

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

#include "health/checks/infiniband/infiniband_checks.h"

#include <cmath>
#include <cstdio>

#include "health/checks/infiniband/port_text.h"

namespace muster {

std::span<const CheckSpec> infiniband_checks() {
  static const std::vector<CheckSpec> all = joined_rows(
      {infiniband_device_checks(), infiniband_link_checks(), infiniband_counter_checks()});
  return all;
}

std::vector<InfinibandPort> first_ports(const std::vector<InfinibandPort>& ports) {
  std::vector<InfinibandPort> first;
  for (const InfinibandPort& port : ports) {
    if (first.empty() || first.back().device != port.device) first.push_back(port);
  }
  return first;
}

std::vector<HealthFinding> judge_infiniband(const InfinibandFacts& facts,
                                            const HealthProfile& profile) {
  const InfinibandLook look{facts, judged_ports(facts.files, profile, facts.refusing)};
  CheckInput input{facts.files, profile};
  input.ib = &look;
  std::vector<HealthFinding> findings;
  for (const CheckSpec& check : infiniband_checks()) {
    const bool is_read = check.group == SourceGroup::infiniband_counters
                             ? facts.has_counters
                             : !facts.is_of_links || has(check.phases, Phase::periodic);
    if (!is_read || !check.judge) continue;
    input.spec = &check;
    append_findings(findings, check.judge(input));
  }
  return findings;
}

HealthFinding port_finding(const CheckInput& input, const InfinibandPort& port,
                           std::string_view leaf, std::string expected) {
  HealthFinding finding = device_finding(input, port, leaf, std::move(expected));
  finding.device = port.name();
  finding.source = port.path(leaf);
  return finding;
}

HealthFinding device_finding(const CheckInput& input, const InfinibandPort& port,
                             std::string_view leaf, std::string expected) {
  HealthFinding finding =
      make_finding(input.check(), port.device, CheckStatus::pass, {}, std::move(expected));
  finding.serial = port.guid;
  finding.source = infiniband_device_path(port.device, leaf);
  return finding;
}

HealthFinding as_unknown(HealthFinding finding, std::string why) {
  finding.status = CheckStatus::unknown;
  finding.evidence.push_back(std::move(why));
  return finding;
}

HealthFinding as_unreadable(HealthFinding finding, const FileReading& reading) {
  std::string why = finding.source + ": " + reading.error;
  return as_unknown(std::move(finding), std::move(why));
}

HealthFinding as_not_understood(HealthFinding finding, std::string_view text) {
  std::string why = finding.source + ": not understood: " + shown_text(text);
  return as_unknown(std::move(finding), std::move(why));
}

HealthFinding as_failed(HealthFinding finding, CheckSeverity severity) {
  finding.severity = severity;
  return as_failed(std::move(finding));
}

HealthFinding as_failed(HealthFinding finding) {
  finding.status = CheckStatus::fail;
  return finding;
}

HealthFinding with_grace(HealthFinding finding, const CheckInput& input) {
  const auto uptime = uptime_of(input.files);
  const auto grace = link_grace(input.profile, input.check().id);
  if (finding.status != CheckStatus::fail || !uptime || *uptime >= grace) return finding;
  return as_unknown(std::move(finding), "booted " + std::to_string(uptime->count()) +
                                            " s ago: links are judged from " +
                                            std::to_string(grace.count()) + " s on");
}

std::string shown_number(double value) {
  char text[48];
  const bool is_whole = std::abs(value - std::round(value)) < 0.005 || std::abs(value) >= 1000;
  std::snprintf(text, sizeof text, is_whole ? "%.0f" : "%.2f", value);
  return text;
}

}  // namespace muster

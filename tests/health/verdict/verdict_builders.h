// Findings and rules for tests of verdicts, apart from the catalogue: a check's name says how it
// is believed.
#pragma once

#include <string>
#include <vector>

#include "health/verdict/node_verdict.h"
#include "health/verdict/streaks.h"

namespace muster {

inline Persistence persistence_by_name(std::string_view check) {
  if (check == "gpu.xid" || check.starts_with("event.")) return Persistence::event;
  return check.starts_with("delta.") ? Persistence::delta : Persistence::samples;
}

inline HealthFinding a_finding(std::string check, std::string device, CheckStatus status,
                               CheckSeverity severity = {Remedy::drain, {}, false}) {
  HealthFinding finding;
  finding.check = std::move(check);
  finding.device = std::move(device);
  finding.status = status;
  finding.severity = severity;
  return finding;
}

inline HealthFinding a_pass(std::string check, std::string device = {}) {
  return a_finding(std::move(check), std::move(device), CheckStatus::pass);
}
inline HealthFinding a_failure(std::string check, std::string device = {},
                               CheckSeverity severity = {Remedy::drain, {}, false}) {
  return a_finding(std::move(check), std::move(device), CheckStatus::fail, severity);
}
inline HealthFinding an_unknown(std::string check, std::string device = {}) {
  return a_finding(std::move(check), std::move(device), CheckStatus::unknown);
}
inline HealthFinding an_xid(const std::string& code, CheckSeverity severity,
                            const std::string& device) {
  HealthFinding finding = a_failure("gpu.xid", device, severity);
  finding.value = code;
  return finding;
}

// One node under observation. Time goes on by itself, a second for each run.
struct WatchedNode {
  HealthProfile profile;
  CheckRules rules{profile, persistence_by_name, CheckMode::enforce};
  Streaks streaks;
  Time now = from_ms(1'000'000'000);
  std::optional<Seconds> uptime = Seconds{86'400};
  std::string job;

  WatchedNode() = default;
  WatchedNode(const WatchedNode&) = delete;  // the rules refer to the profile
  WatchedNode& operator=(const WatchedNode&) = delete;

  void run(const std::vector<HealthFinding>& findings, int times = 1) {
    for (int i = 0; i < times; ++i) {
      now += Seconds{1};
      add_findings(streaks, findings, rules, {now, uptime, job});
    }
  }
  void run(const HealthFinding& finding, int times = 1) { run(std::vector{finding}, times); }
  NodeVerdict verdict() const { return judge_node(streaks, rules, now); }
  bool is_drained() const { return verdict().is_drained(); }
  std::optional<std::string> why_stays(const std::string& reason) const {
    return why_drain_stays(reason, streaks, rules, verdict());
  }
};

}  // namespace muster

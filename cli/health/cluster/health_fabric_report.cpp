#include "cli/health/cluster/health_fabric_report.h"

#include <nlohmann/json.hpp>

#include "cli/terminal/escape.h"
#include "cli/terminal/terminal.h"
#include "health/output/finding_report.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

std::string on_host(const std::string& host, const std::string& device) {
  if (host.empty() || device.empty()) return host + device;
  return host + " " + device;
}

std::string fault_text(const char* what, const std::string& host, const StandingFault& fault) {
  const std::string where = on_host(host, fault.finding.device);
  return std::string(what) + fault.finding.check + (where.empty() ? "" : " " + where) + ", " +
         text_of(fault.severity) + ", since " + local_text(fault.first_seen) + "\n";
}

std::string questions_text(const char* what, const std::string& host,
                           const std::vector<SampleWanted>& questions) {
  std::string text;
  for (const SampleWanted& one : questions) {
    const std::string where = on_host(host, one.device);
    text += what + one.check + (where.empty() ? "" : " " + where) + "\n";
  }
  return text;
}

std::string verdicts_text(const FabricResult& result) {
  std::string text;
  for (const auto& [host, verdict] : result.verdicts) {
    for (const StandingFault& fault : verdict.drains) text += fault_text("drains: ", host, fault);
  }
  for (const auto& [host, verdict] : result.verdicts) {
    for (const StandingFault& fault : verdict.would_drain) {
      text += fault_text("would drain (observe mode): ", host, fault);
    }
    text += questions_text("required check did not pass: ", host, verdict.unclear);
    text += questions_text("failed, not yet confirmed: ", host, verdict.unconfirmed);
  }
  return text;
}

std::string last_line(const FabricResult& result, bool color) {
  std::string drained;
  std::size_t count = 0;
  for (const auto& [host, verdict] : result.verdicts) {
    if (!verdict.is_drained()) continue;
    drained += " " + one_line(host.empty() ? "(no host)" : host);
    ++count;
  }
  if (count > 0) {
    const std::string what =
        count == 1 ? "1 host unavailable" : std::to_string(count) + " hosts unavailable";
    return inked(what, Ink::red, color) + ":" + drained + "\n";
  }
  if (fabric_exit(result) == HealthExit::unclear) {
    const bool is_silent = is_nothing_known(result);
    return inked(
               is_silent ? "nothing is known of the fabric" : "the state of the fabric is unknown",
               Ink::yellow, color) +
           "\n";
  }
  return inked("nothing in the fabric keeps jobs from its " + std::to_string(result.hosts) +
                   (result.hosts == 1 ? " host" : " hosts"),
               Ink::green, color) +
         "\n";
}

}  // namespace

std::string fabric_text(const FabricResult& result, const HealthTextForm& form) {
  HealthTextForm with_hosts = form;
  with_hosts.hosts = true;
  std::string text = findings_text(result.look.reports, with_hosts);
  if (!text.empty()) text += "\n";
  return text + printable(summary_of(result.look)) + printable(verdicts_text(result)) +
         last_line(result, form.color);
}

Document fabric_document(const FabricResult& result) {
  const HealthLook& look = result.look;
  Document out;
  out["ts"] = utc_text(look.run.at);
  out["host"] = look.run.host;
  out["profile"] = look.profile.empty() ? Document(nullptr) : Document(look.profile);
  out["looks"] = look.looks;
  out["took_ms"] = look.took.count();
  out["state"] = state_word(fabric_exit(result));
  out["hosts"] = Document::object();
  for (const auto& [host, verdict] : result.verdicts)
    out["hosts"][host] = verdict_document(verdict);
  const FindingCounts counts = counts_of(look.reports);
  out["counts"] = Document{{"pass", counts.pass},
                           {"fail", counts.fail},
                           {"unknown", counts.unknown},
                           {"first_readings", look.first_readings}};
  out["findings"] = Document::array();
  for (const FindingReport& report : worst_first(look.reports)) {
    out["findings"].push_back(report_document(report));
  }
  return out;
}

std::vector<FindingReport> reports_with_hosts(const FabricResult& result) {
  std::vector<FindingReport> reports = result.look.reports;
  for (FindingReport& report : reports) report.device = on_host(report.host, report.device);
  return reports;
}

}  // namespace muster

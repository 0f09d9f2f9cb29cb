#include "cli/health/cluster/health_fleet.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "cli/time_text.h"
#include "health/fleet_rules.h"
#include "health/name_pattern.h"
#include "health/verdict/check_rules.h"

namespace muster {

namespace {

bool is_asked_for(const std::vector<std::string>& checks, const std::string& check) {
  const auto fits = [&](const std::string& pattern) { return fits_pattern(pattern, check); };
  return checks.empty() || std::ranges::any_of(checks, fits);
}

void make_unclear(NodeAnswer& answer, const HealthFinding& finding, MonitorCode code,
                  const CheckRules& rules, const char* why_open) {
  const bool is_required_and_open =
      finding.status == CheckStatus::unknown && is_required(rules.profile, finding.check);
  const bool is_serious = code == MonitorCode::critical;
  if (!is_serious && !is_required_and_open) return;
  if (answer.fitness != NodeFitness::ok && answer.fitness != NodeFitness::unclear) return;
  answer.fitness = NodeFitness::unclear;
  answer.why += (answer.why.empty() ? "" : "; ") + finding.check +
                (is_serious ? ": not as on most nodes" : why_open);
}

FindingReport reported(const NodeAnswer& answer, const HealthFinding& finding,
                       const CheckRules& rules, Time now) {
  const RunFacts run{now, answer.node, answer.boot_id, {}, utc_text};
  return report_of(finding, 0, run, rules, {});
}

void add(NodeAnswer& answer, const HealthFinding& finding, const CheckRules& rules, Time now) {
  if (mode_of(rules, finding.check, finding.device) == CheckMode::off) return;
  answer.reports.push_back(reported(answer, finding, rules, now));
  make_unclear(answer, finding, answer.reports.back().code, rules, ": no version has the majority");
}

// One line for a check and device: the worse, and of the other what it says beside it.
void put(NodeAnswer& answer, const HealthFinding& finding, const CheckRules& rules, Time now) {
  if (mode_of(rules, finding.check, finding.device) == CheckMode::off) return;
  FindingReport report = reported(answer, finding, rules, now);
  const MonitorCode code = report.code;
  const auto same = std::ranges::find_if(answer.reports, [&](const FindingReport& one) {
    return one.check == finding.check && one.device == finding.device;
  });
  if (same == answer.reports.end()) {
    answer.reports.push_back(std::move(report));
  } else if (code != same->code && worst_code(code, same->code) == code) {
    *same = std::move(report);
  } else if (finding.status != CheckStatus::pass) {
    std::ranges::move(report.evidence, std::back_inserter(same->evidence));
  }
  make_unclear(answer, finding, code, rules, ": not told by all, or by too few alike");
}

std::string value_text(const ReportValue& value) {
  if (value.whole) return std::to_string(*value.whole);
  return value.number ? plain_number(*value.number) : value.text.value_or("");
}

CheckStatus status_in(const std::string& word) {
  const auto found = std::ranges::find(check_status_words, word);
  return found == check_status_words.end()
             ? CheckStatus::unknown
             : static_cast<CheckStatus>(found - check_status_words.begin());
}

// As much of a node's findings as rules compare.
FleetNode fleet_node(const NodeAnswer& answer) {
  FleetNode node;
  node.figures = answer.figures;
  for (const FindingReport& report : answer.reports) {
    HealthFinding& finding = node.findings.emplace_back();
    finding.check = report.check;
    finding.device = report.device;
    finding.status = status_in(report.status);
    finding.value = value_text(report.value);
  }
  return node;
}

using Kind = std::pair<std::string, std::string>;  // target, profile

}  // namespace

void compare_nodes(std::vector<NodeAnswer>& answers, const std::vector<std::string>& checks,
                   const ProfileOf& profile_of, Time now) {
  std::map<Kind, std::map<std::string, NodeVersions>> kinds;
  for (const NodeAnswer& answer : answers) {
    if (answer.fitness == NodeFitness::unreachable) continue;
    kinds[{answer.target, answer.profile}][answer.node] = answer.versions;
  }
  for (const auto& [kind, by_node] : kinds) {
    const auto judged = judge_versions(by_node);
    for (NodeAnswer& answer : answers) {
      const auto found = judged.find(answer.node);
      const bool is_of_it = std::pair(answer.target, answer.profile) == kind;
      if (found == judged.end() || !is_of_it) continue;
      const HealthProfile profile = profile_of(answer);
      const CheckRules rules = rules_of(profile);
      for (const HealthFinding& finding : found->second) {
        if (is_asked_for(checks, finding.check)) add(answer, finding, rules, now);
      }
    }
  }
}

void compare_by_rules(std::vector<NodeAnswer>& answers, const std::vector<std::string>& checks,
                      const ProfileOf& profile_of, Time now) {
  std::map<Kind, std::map<std::string, FleetNode>> kinds;
  for (const NodeAnswer& answer : answers) {
    if (answer.fitness == NodeFitness::unreachable) continue;
    kinds[{answer.target, answer.profile}][answer.node] = fleet_node(answer);
  }
  for (const auto& [kind, by_node] : kinds) {
    std::optional<std::map<std::string, std::vector<HealthFinding>>> judged;
    for (NodeAnswer& answer : answers) {
      if (Kind(answer.target, answer.profile) != kind || !by_node.contains(answer.node)) continue;
      const HealthProfile profile = profile_of(answer);
      if (!judged) judged = judge_fleet_rules(profile, by_node);
      const CheckRules rules = rules_of(profile);
      for (const HealthFinding& finding : (*judged)[answer.node]) {
        if (is_asked_for(checks, finding.check)) put(answer, finding, rules, now);
      }
    }
  }
}

}  // namespace muster

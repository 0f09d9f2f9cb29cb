#include "cli/health_fleet.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cli/time_text.h"
#include "health/name_pattern.h"
#include "health/verdict/check_rules.h"

namespace muster {

namespace {

bool is_asked_for(const std::vector<std::string>& checks, const std::string& check) {
  const auto fits = [&](const std::string& pattern) { return fits_pattern(pattern, check); };
  return checks.empty() || std::ranges::any_of(checks, fits);
}

void add(NodeAnswer& answer, const HealthFinding& finding, const CheckRules& rules, Time now) {
  if (mode_of(rules, finding.check, finding.device) == CheckMode::off) return;
  const RunFacts run{now, answer.node, answer.boot_id, {}, utc_text};
  answer.reports.push_back(report_of(finding, 0, run, rules, {}));
  const bool is_required_and_open =
      finding.status == CheckStatus::unknown && is_required(rules.profile, finding.check);
  const bool is_serious = answer.reports.back().code == MonitorCode::critical;
  if (!is_serious && !is_required_and_open) return;
  if (answer.fitness != NodeFitness::ok && answer.fitness != NodeFitness::unclear) return;
  answer.fitness = NodeFitness::unclear;
  answer.why += (answer.why.empty() ? "" : "; ") + finding.check +
                (is_serious ? ": not as on most nodes" : ": no version has the majority");
}

}  // namespace

void compare_nodes(std::vector<NodeAnswer>& answers, const std::vector<std::string>& checks,
                   const ProfileOf& profile_of, Time now) {
  std::map<std::pair<std::string, std::string>, std::map<std::string, NodeVersions>> kinds;
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

}  // namespace muster

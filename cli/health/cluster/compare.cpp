#include "cli/health/cluster/compare.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/terminal/table.h"
#include "health/benchmark/samples.h"
#include "health/model/profile_floor.h"
#include "health/verdict/check_rules.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

using Kind = std::pair<std::string, std::string>;  // target, profile

std::map<Kind, NodeFigures> figures_by_kind(const std::vector<NodeAnswer>& answers) {
  std::map<Kind, NodeFigures> kinds;
  for (const NodeAnswer& answer : answers) {
    if (!answer.figures.empty()) {
      kinds[{answer.target, answer.profile}][answer.node] = answer.figures;
    }
  }
  return kinds;
}

// What the node said of the same figure. Its metric stands only in the evidence.
FindingReport* report_of_same(NodeAnswer& answer, const std::optional<HealthFinding>& alone) {
  if (!alone) return nullptr;
  const auto found = std::ranges::find_if(answer.reports, [&](const FindingReport& one) {
    return one.check == alone->check && one.device == alone->device &&
           one.evidence == alone->evidence;
  });
  return found == answer.reports.end() ? nullptr : &*found;
}

std::string sentence_of(const HealthFinding& finding) {
  const std::string unit = finding.unit.empty() ? "" : " " + finding.unit;
  return finding.check + (finding.device.empty() ? "" : " " + finding.device) + ": " +
         finding.value + unit + ", expected " + finding.expected + unit;
}

void say(NodeAnswer& answer, NodeFitness fitness, const std::string& why) {
  if (answer.fitness == NodeFitness::ok || fitness < answer.fitness) answer.fitness = fitness;
  answer.why += (answer.why.empty() ? "" : "; ") + why;
}

void take(NodeAnswer& answer, const FleetJudgement& judgement, const CheckRules& rules, Time now) {
  const HealthFinding& finding = judgement.finding;
  const RunFacts run{now, answer.node, answer.boot_id, {}, utc_text};
  FindingReport report = report_of(finding, 0, run, rules, {});
  const MonitorCode code = report.code;
  FindingReport* same = report_of_same(answer, judgement.alone);
  const bool was_known = same != nullptr && same->code == code;
  if (same != nullptr) {
    report.duration_ms = same->duration_ms;
    *same = std::move(report);
  } else {
    answer.reports.push_back(std::move(report));
  }
  if (was_known) return;
  if (code == MonitorCode::critical) say(answer, NodeFitness::drained, sentence_of(finding));
  const bool is_open =
      finding.status == CheckStatus::unknown && is_required(rules.profile, finding.check);
  if (is_open) say(answer, NodeFitness::unclear, "required check did not pass: " + finding.check);
}

// Of one figure on the nodes of one kind.
struct FigureRow {
  Kind kind;
  std::string metric;
  FleetFigure fleet;
  double worst = 0;
  std::string node;  // that has the worst
};

void keep_worst(FigureRow& row, const PerformanceSample& sample, const std::string& node) {
  if (sample.metric != row.metric || !sample.value) return;
  const bool is_ceiling = find_performance_metric(row.metric)->is_ceiling;
  const bool is_worse = is_ceiling ? *sample.value > row.worst : *sample.value < row.worst;
  if (!row.node.empty() && !is_worse) return;
  row.worst = *sample.value;
  row.node = node + (sample.device.empty() ? "" : " " + sample.device);
}

std::vector<FigureRow> rows_of(const std::vector<NodeAnswer>& answers) {
  std::vector<FigureRow> rows;
  for (const auto& [kind, by_node] : figures_by_kind(answers)) {
    for (const auto& [metric, fleet] : fleet_figures(by_node)) {
      FigureRow row{kind, metric, fleet, 0, {}};
      for (const auto& [node, samples] : by_node) {
        for (const PerformanceSample& sample : samples) keep_worst(row, sample, node);
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

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

using Kind = std::pair<std::string, std::string>;  // target, profile

}  // namespace

void compare_figures(std::vector<NodeAnswer>& answers, const ProfileOf& profile_of, Time now) {
  for (const auto& [kind, by_node] : figures_by_kind(answers)) {
    std::map<std::string, std::vector<FleetJudgement>> judged;
    for (NodeAnswer& answer : answers) {
      if (Kind(answer.target, answer.profile) != kind || !by_node.contains(answer.node)) continue;
      const HealthProfile profile = profile_of(answer);
      if (judged.empty()) judged = judge_fleet(profile, by_node);
      const CheckRules rules = rules_of(profile);
      for (const FleetJudgement& one : judged[answer.node]) take(answer, one, rules, now);
    }
  }
}

std::string figures_table(const std::vector<NodeAnswer>& answers, const HealthTextForm& form) {
  const std::vector<FigureRow> rows = rows_of(answers);
  if (rows.empty()) return {};
  Table table({"MEASURED", "NODES", "MEDIAN", "WORST", "ON", "UNIT"});
  bool are_few = false;
  for (const FigureRow& row : rows) {
    are_few = are_few || row.fleet.nodes < fleet_min_nodes;
    table.add({row.metric, std::to_string(row.fleet.nodes), plain_number(row.fleet.median),
               plain_number(row.worst), row.node,
               std::string(find_performance_metric(row.metric)->unit)});
  }
  std::string text = table.text(form.width, form.color);
  if (are_few) {
    text += "of fewer than " + std::to_string(fleet_min_nodes) +
            " nodes of a target and profile only minimums judge\n";
  }
  return text;
}

Document figures_document(const std::vector<NodeAnswer>& answers) {
  Document out = Document::array();
  for (const FigureRow& row : rows_of(answers)) {
    out.push_back(Document{{"target", row.kind.first},
                           {"profile", row.kind.second},
                           {"metric", row.metric},
                           {"unit", find_performance_metric(row.metric)->unit},
                           {"nodes", row.fleet.nodes},
                           {"median", row.fleet.median},
                           {"worst", row.worst},
                           {"node", row.node.substr(0, row.node.find(' '))},
                           {"compared", row.fleet.nodes >= fleet_min_nodes}});
  }
  return out;
}

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

}  // namespace muster

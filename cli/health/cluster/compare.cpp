#include "cli/health/cluster/compare.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/terminal/escape.h"
#include "cli/terminal/table.h"
#include "health/benchmark/samples.h"
#include "health/model/performance.h"
#include "health/verdict/streaks.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

using Kind = std::pair<std::string, std::string>;  // target, profile

constexpr NodeFitness good_first[] = {NodeFitness::ok, NodeFitness::drained, NodeFitness::unclear,
                                      NodeFitness::unreachable};
// A line of names is read up to here; the table has all of them.
constexpr std::size_t names_most = 16;

Kind kind_of(const HostHealth& answer) {
  return {answer.target, answer.profile.value_or("")};
}

std::map<Kind, NodeFigures> figures_by_kind(const std::vector<HostHealth>& answers) {
  std::map<Kind, NodeFigures> kinds;
  for (const HostHealth& answer : answers) {
    if (!answer.metrics.empty()) {
      kinds[kind_of(answer)][answer.node] = answer.metrics;
    }
  }
  return kinds;
}

// What the node said of the same figure. Its metric stands only in the evidence.
FindingReport* report_of_same(HostHealth& answer, const std::optional<HealthFinding>& alone) {
  if (!alone) return nullptr;
  const auto found = std::ranges::find_if(answer.findings, [&](const FindingReport& one) {
    return one.check == alone->check && one.device == alone->device &&
           one.evidence == alone->evidence;
  });
  return found == answer.findings.end() ? nullptr : &*found;
}

std::string sentence_of(const HealthFinding& finding) {
  const std::string unit = finding.unit.empty() ? "" : " " + finding.unit;
  return finding.check + (finding.device.empty() ? "" : " " + finding.device) + ": " +
         finding.value + unit + ", expected " + finding.expected + unit;
}

void say(HostHealth& answer, NodeFitness fitness, const std::string& why) {
  if (answer.fitness == NodeFitness::ok || fitness < answer.fitness) answer.fitness = fitness;
  answer.why += (answer.why.empty() ? "" : "; ") + why;
}

bool is_open(const HealthFinding& finding, const CheckRules& rules) {
  return finding.status == CheckStatus::unknown && is_required(rules.profile, finding.check);
}

void take(HostHealth& answer, const FleetJudgement& judgement, const CheckRules& rules, Time now) {
  const HealthFinding& finding = judgement.finding;
  const RunFacts run{now, answer.node, answer.boot_id};
  FindingReport report = report_of(finding, 0, run, rules, {});
  const MonitorCode code = report.code;
  FindingReport* same = report_of_same(answer, judgement.alone);
  const bool was_known = same != nullptr && same->code == code;
  if (same != nullptr) {
    report.duration_ms = same->duration_ms;
    *same = std::move(report);
  } else {
    answer.findings.push_back(std::move(report));
  }
  if (was_known) return;
  if (code == MonitorCode::critical) say(answer, NodeFitness::drained, sentence_of(finding));
  if (is_open(finding, rules))
    say(answer, NodeFitness::unclear, "required check did not pass: " + finding.check);
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

std::vector<FigureRow> rows_of(const std::vector<HostHealth>& answers) {
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

void add(HostHealth& answer, const HealthFinding& finding, const CheckRules& rules, Time now) {
  if (mode_of(rules, finding.check, finding.device) == CheckMode::off) return;
  const RunFacts run{now, answer.node, answer.boot_id};
  answer.findings.push_back(report_of(finding, 0, run, rules, {}));
  const bool is_serious = answer.findings.back().code == MonitorCode::critical;
  if (!is_serious && !is_open(finding, rules)) return;
  if (answer.fitness != NodeFitness::ok && answer.fitness != NodeFitness::unclear) return;
  say(answer, NodeFitness::unclear,
      finding.check + (is_serious ? ": not as on most nodes" : ": no version has the majority"));
}

std::string figures_table(const std::vector<HostHealth>& answers, const HealthTextForm& form) {
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

Document figures_document(const std::vector<HostHealth>& answers) {
  return list_of(rows_of(answers), [](const FigureRow& row) {
    return Document{{"target", row.kind.first},
                    {"profile", row.kind.second},
                    {"metric", row.metric},
                    {"unit", find_performance_metric(row.metric)->unit},
                    {"nodes", row.fleet.nodes},
                    {"median", row.fleet.median},
                    {"worst", row.worst},
                    {"node", row.node.substr(0, row.node.find(' '))},
                    {"compared", row.fleet.nodes >= fleet_min_nodes}};
  });
}

std::vector<std::string> nodes_that_are(NodeFitness fitness,
                                        const std::vector<HostHealth>& answers) {
  std::vector<std::string> names;
  for (const HostHealth& answer : answers) {
    if (answer.fitness == fitness) names.push_back(answer.node);
  }
  return names;
}

std::string first_names(std::vector<std::string> names) {
  if (names.size() <= names_most) return joined(names);
  const std::size_t more = names.size() - names_most;
  names.resize(names_most);
  return joined(names) + ", " + std::to_string(more) + " more";
}

std::string looked_text(const HostHealth& answer) {
  if (answer.fitness == NodeFitness::unreachable) return {};
  if (answer.beside_ranks) return "beside ranks";
  return answer.metrics.empty() ? answer.phase : "measured";
}

std::vector<std::string> row_of(const HostHealth& answer) {
  const FindingCounts counts = counts_of(answer.findings);
  const bool answers = answer.fitness != NodeFitness::unreachable;
  const auto number = [&](std::int64_t count) { return answers ? std::to_string(count) : ""; };
  return {
      answer.node,         word(answer.fitness), answer.profile.value_or(""), looked_text(answer),
      number(counts.pass), number(counts.fail),  number(counts.unknown),      one_line(answer.why)};
}

Document node_document(const HostHealth& answer) {
  Document out;
  out["node"] = answer.node;
  out["target"] = answer.target;
  out["state"] = word(answer.fitness);
  out["why"] = answer.why.empty() ? Document(nullptr) : Document(answer.why);
  if (!answer.has_answered) return out;
  const Document said = health_document(answer);
  for (const auto& [key, value] : said.items()) {
    if (key != "findings" && key != "counts") out[key] = value;
  }
  out["counts"] = said["counts"];
  out["counts"].erase("first_readings");
  out["findings"] = list_of(answer.findings, [](const auto& one) { return report_document(one); });
  return out;
}
}  // namespace

void compare_figures(std::vector<HostHealth>& answers, const ProfileOf& profile_of, Time now) {
  for (const auto& [kind, by_node] : figures_by_kind(answers)) {
    std::map<std::string, std::vector<FleetJudgement>> judged;
    for (HostHealth& answer : answers) {
      if (kind_of(answer) != kind || !by_node.contains(answer.node)) continue;
      const HealthProfile profile = profile_of(answer);
      if (judged.empty()) judged = judge_fleet(profile, by_node);
      const CheckRules rules = rules_of(profile);
      for (const FleetJudgement& one : judged[answer.node]) take(answer, one, rules, now);
    }
  }
}

void compare_nodes(std::vector<HostHealth>& answers, const std::vector<std::string>& checks,
                   const ProfileOf& profile_of, Time now) {
  std::map<Kind, std::map<std::string, NodeVersions>> kinds;
  for (const HostHealth& answer : answers) {
    if (answer.fitness == NodeFitness::unreachable) continue;
    kinds[kind_of(answer)][answer.node] = answer.versions;
  }
  for (const auto& [kind, by_node] : kinds) {
    const auto judged = judge_versions(by_node);
    for (HostHealth& answer : answers) {
      const auto found = judged.find(answer.node);
      if (found == judged.end() || kind_of(answer) != kind) continue;
      const HealthProfile profile = profile_of(answer);
      const CheckRules rules = rules_of(profile);
      for (const HealthFinding& finding : found->second) {
        if (is_asked_for(checks, finding.check)) add(answer, finding, rules, now);
      }
    }
  }
  for (HostHealth& answer : answers) doubt_silent(answer, utc_text(now));
}

void sort_worst_first(std::vector<HostHealth>& answers) {
  std::ranges::stable_sort(answers, [](const HostHealth& a, const HostHealth& b) {
    if (a.fitness != b.fitness) return a.fitness < b.fitness;
    return natural_less(a.node, b.node);
  });
}

HealthExit health_exit(const std::vector<HostHealth>& answers) {
  const auto has = [&](NodeFitness fitness) {
    return std::ranges::any_of(answers, [=](const auto& one) { return one.fitness == fitness; });
  };
  if (has(NodeFitness::drained)) return HealthExit::drained;
  const bool is_open = has(NodeFitness::unclear) || has(NodeFitness::unreachable);
  return is_open || answers.empty() ? HealthExit::unclear : HealthExit::healthy;
}

std::string nodes_summary(const std::vector<HostHealth>& answers) {
  std::vector<std::string> parts;
  for (const NodeFitness fitness : good_first) {
    const std::vector<std::string> names = nodes_that_are(fitness, answers);
    if (names.empty() && fitness != NodeFitness::ok) continue;
    parts.push_back(std::to_string(names.size()) + " " + word(fitness) +
                    (names.empty() ? "" : " (" + first_names(names) + ")"));
  }
  return joined(parts);
}

std::string nodes_text(const std::vector<HostHealth>& answers, const HealthTextForm& form) {
  Table table({"HOST", "STATE", "PROFILE", "LOOKED AT", "PASS", "FAIL", "UNKNOWN", "WHY"});
  for (const HostHealth& answer : answers) table.add(row_of(answer));
  std::string text = table.text(form.width, form.color);
  HealthTextForm of_hosts = form;
  of_hosts.hosts = true;
  std::vector<HostHealth> shown = answers;
  // Of those that do not answer the first table says all.
  std::erase_if(shown, [](const auto& one) { return one.fitness == NodeFitness::unreachable; });
  const std::string found = findings_text(findings_of(shown), of_hosts);
  if (!found.empty()) text += "\n" + found;
  const std::string figures = printable(figures_table(answers, form));
  if (!figures.empty()) text += "\n" + figures;
  text += "\n";
  if (std::ranges::any_of(answers, &HostHealth::beside_ranks)) text += ranks_note;
  return text + printable(nodes_summary(answers)) + "\n";
}

Document nodes_document(const std::vector<HostHealth>& answers) {
  Document out;
  out["nodes"] = list_of(answers, node_document);
  out["summary"] = Document::object();
  for (const NodeFitness fitness : good_first) {
    out["summary"][word(fitness)] = nodes_that_are(fitness, answers);
  }
  Document figures = figures_document(answers);
  if (!figures.empty()) out["figures"] = std::move(figures);
  return out;
}

}  // namespace muster

#include "health/fleet_rules.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "health/compare/majority.h"
#include "health/model/check.h"
#include "health/profile_rules.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

// What a rule compares, as the nodes tell it.
struct Compared {
  std::string what;  // "gpu.power_limit", "stream_mb_per_s"
  std::string unit;
  std::map<std::string, std::string> told;  // by node
  std::set<std::string> differing;          // from the majority
  std::optional<std::string> majority;
};

// Nothing: it is not told, or not all of it is known.
std::optional<std::string> told_value(const FleetNode& node, const std::string& check) {
  std::set<std::string> values;
  for (const HealthFinding& finding : node.findings) {
    if (finding.check != check) continue;
    if (finding.status == CheckStatus::unknown) return std::nullopt;
    if (!finding.value.empty()) values.insert(finding.value);
  }
  if (values.empty()) return std::nullopt;
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return text;
}

std::optional<double> figure_of(const FleetNode& node, std::string_view metric) {
  std::vector<double> values;
  for (const PerformanceSample& sample : node.figures) {
    if (sample.metric != metric) continue;
    if (!sample.value) return std::nullopt;
    values.push_back(*sample.value);
  }
  return median_of(std::move(values));
}

Compared compare_texts(const std::string& check, const std::map<std::string, FleetNode>& by_node) {
  Compared compared{check, {}, {}, {}, {}};
  for (const auto& [name, node] : by_node) {
    if (auto value = told_value(node, check)) compared.told.emplace(name, *std::move(value));
  }
  if (const auto majority = majority_of(compared.told)) {
    compared.majority = majority->value;
    compared.differing = {majority->differing.begin(), majority->differing.end()};
  }
  return compared;
}

Compared compare_figures(const PerformanceMetric& metric,
                         const std::map<std::string, FleetNode>& by_node) {
  Compared compared{std::string(metric.name), std::string(metric.unit), {}, {}, {}};
  std::map<std::string, double> figures;
  for (const auto& [name, node] : by_node) {
    const auto value = figure_of(node, metric.name);
    if (!value) continue;
    figures.emplace(name, *value);
    compared.told.emplace(name, number_text(*value));
  }
  if (const auto majority = figure_majority(figures, metric.fleet_pct)) {
    compared.majority = number_text(majority->value) + " +-" + number_text(metric.fleet_pct) + " %";
    compared.differing = {majority->differing.begin(), majority->differing.end()};
  }
  return compared;
}

std::vector<Compared> compared_by(const ProfileRule& rule,
                                  const std::map<std::string, FleetNode>& by_node) {
  std::vector<Compared> all;
  for (const PerformanceMetric& metric : performance_metrics()) {
    if (!metric.counts_faults && is_about(rule, metric)) {
      all.push_back(compare_figures(metric, by_node));
    }
  }
  if (all.empty()) all.push_back(compare_texts(rule.metric, by_node));
  std::erase_if(all, [](const Compared& one) { return one.told.empty(); });
  return all;
}

// "2 of 5 nodes: 2048, 3 of 5 nodes: 4096"
std::string shares(const Compared& compared) {
  std::map<std::string, int> nodes;
  for (const auto& [node, value] : compared.told) ++nodes[value];
  constexpr std::size_t most = 8;
  std::string text;
  std::size_t count = 0;
  for (const auto& [value, of] : nodes) {
    if (++count > most) return text + ", …";
    text += (text.empty() ? "" : ", ") + value + " on " + std::to_string(of);
  }
  return text;
}

// How one rule judges each node by what it compares.
class Verdict {
 public:
  Verdict(const ProfileRule& rule, const CheckSeverity& severity, const Compared& compared)
      : rule_(rule), severity_(severity), compared_(compared) {}

  HealthFinding of(const std::string& node) const {
    HealthFinding finding = make_finding(check_of_rule(rule_), "", CheckStatus::unknown);
    const std::size_t tell = compared_.told.size();
    finding.source = "as " + std::to_string(tell) + (tell == 1 ? " node tells" : " nodes tell");
    finding.unit = compared_.unit;
    const auto told = compared_.told.find(node);
    if (told == compared_.told.end()) return with(std::move(finding), ": the node does not tell");
    finding.value = told->second;
    const bool may_blame = tell >= majority_nodes_min;
    if (rule_.op == RuleOperator::majority && !may_blame) {
      return with(std::move(finding), ": a majority takes three nodes that tell");
    }
    if (tell == 1) return with(std::move(finding), ": no other node tells");
    if (!compared_.majority) return undecided(std::move(finding));
    finding.expected = *compared_.majority;
    const bool differs = compared_.differing.contains(node);
    finding.status = differs ? CheckStatus::fail : CheckStatus::pass;
    if (differs) finding.severity = severity_;
    return with(std::move(finding), "");
  }

 private:
  HealthFinding with(HealthFinding finding, const std::string& more) const {
    finding.evidence.push_back(compared_.what + ", " + rule_words(rule_.name) + more);
    return finding;
  }

  // Whose fault it is nobody knows, so it is nobody's: that they differ is told all the same.
  HealthFinding undecided(HealthFinding finding) const {
    if (rule_.op == RuleOperator::all_equal) {
      finding.status = CheckStatus::fail;
      finding.severity = {Remedy::warn, {}};
      finding.fault_class = FaultClass::infra;
      finding.expected = "the same on all nodes";
    }
    return with(std::move(finding), ": no value has the majority: " + shares(compared_));
  }

  const ProfileRule& rule_;
  const CheckSeverity& severity_;
  const Compared& compared_;
};

}  // namespace

std::optional<FigureMajority> figure_majority(const std::map<std::string, double>& by_node,
                                              double percent) {
  std::vector<double> values;
  for (const auto& [node, value] : by_node) {
    if (std::isfinite(value)) values.push_back(value);
  }
  if (values.empty()) return std::nullopt;
  const double median = *median_of(values);
  std::ranges::sort(values);
  const auto reach = [&](double value) { return std::abs(value) * (percent / 100); };
  const auto near = [&](double value) {
    return std::ranges::upper_bound(values, value + reach(value)) -
           std::ranges::lower_bound(values, value - reach(value));
  };
  // Of several the one in the middle.
  const double best = *std::ranges::max_element(values, [&](double a, double b) {
    return std::pair(near(a), -std::abs(a - median)) < std::pair(near(b), -std::abs(b - median));
  });
  if (static_cast<std::size_t>(near(best)) * 2 <= values.size()) return std::nullopt;
  FigureMajority majority{best, {}};
  for (const auto& [node, value] : by_node) {
    const bool differs = std::isfinite(value) && std::abs(value - best) > reach(best);
    if (differs) majority.differing.push_back(node);
  }
  return majority;
}

std::map<std::string, std::vector<HealthFinding>> judge_fleet_rules(
    const HealthProfile& profile, const std::map<std::string, FleetNode>& by_node) {
  std::map<std::string, std::vector<HealthFinding>> findings;
  for (const ProfileRule& rule : profile.rules) {
    const bool wants_majority = rule.op == RuleOperator::majority;
    const std::size_t least = wants_majority ? majority_nodes_min : 2;
    const auto severity = severity_in(rule.severity);
    const bool is_ours = wants_majority || rule.op == RuleOperator::all_equal;
    if (!is_ours || !severity || by_node.size() < least) continue;
    if (find_check(check_of_rule(rule)) == nullptr) continue;
    for (const Compared& compared : compared_by(rule, by_node)) {
      const Verdict verdict(rule, *severity, compared);
      for (const auto& [node, told] : by_node) findings[node].push_back(verdict.of(node));
    }
  }
  return findings;
}

}  // namespace muster

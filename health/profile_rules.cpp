#include "health/profile_rules.h"

#include <algorithm>

#include "health/model/check.h"

namespace muster {

namespace {

std::optional<Remedy> remedy_in(std::string_view text) {
  const auto found = std::ranges::find(remedy_words, text);
  if (found == remedy_words.end()) return std::nullopt;
  return static_cast<Remedy>(found - remedy_words.begin());
}

std::vector<std::string_view> figures_of(std::string_view check) {
  std::vector<std::string_view> names;
  for (const PerformanceMetric& metric : performance_metrics()) {
    if (metric.check == check && !metric.counts_faults) names.push_back(metric.name);
  }
  return names;
}

bool counts_faults(std::string_view check) {
  return std::ranges::any_of(performance_metrics(), [&](const PerformanceMetric& metric) {
    return metric.check == check && metric.counts_faults;
  });
}

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

}  // namespace

bool is_about(const ProfileRule& rule, const PerformanceMetric& metric) {
  return rule.metric == metric.name || rule.metric == metric.check;
}

std::vector<RuleCase> rules_on_figure(const HealthProfile& profile, RuleOperator op,
                                      const PerformanceMetric& metric) {
  std::vector<RuleCase> cases;
  for (const ProfileRule& rule : profile.rules) {
    if (rule.op != op || !is_about(rule, metric)) continue;
    const auto severity = severity_in(rule.severity);
    if (severity) cases.push_back({rule.name, rule.arg, *severity});
  }
  return cases;
}

bool wants_figure(const HealthProfile& profile, std::string_view name) {
  const PerformanceMetric* metric = find_performance_metric(name);
  return metric != nullptr && std::ranges::any_of(profile.rules, [&](const ProfileRule& rule) {
           const bool is_of_one_node =
               rule.op == RuleOperator::value || rule.op == RuleOperator::count_of;
           return is_of_one_node && is_about(rule, *metric);
         });
}

std::string_view check_of_rule(const ProfileRule& rule) {
  const PerformanceMetric* metric = find_performance_metric(rule.metric);
  return metric != nullptr ? metric->check : std::string_view(rule.metric);
}

std::optional<std::string> why_never_judged(RuleOperator op, std::string_view name) {
  const PerformanceMetric* figure = find_performance_metric(name);
  const std::vector<std::string_view> figures =
      figure != nullptr ? std::vector{figure->name} : figures_of(name);
  const std::string quoted = "'" + std::string(name) + "'";
  if (figure != nullptr ? figure->counts_faults : counts_faults(name)) {
    return quoted + " counts faults, of which none is right, whatever a rule says";
  }
  if (name.starts_with("perf.") && figures.empty()) return quoted + " measures no figure";
  if (name.starts_with("fab.")) return quoted + " is of the fabric and not of a node";
  if (op == RuleOperator::value && figures.size() > 1) {
    return quoted + " measures " + joined(figures) + ": name one of them";
  }
  if (!figures.empty()) return std::nullopt;
  if (op == RuleOperator::below_median_pct) {
    return quoted + " measures no figure whose median could be taken; checks of 'perf.*' do";
  }
  const CheckSpec* check = find_check(name);
  if (check != nullptr && check->persistence == Persistence::event) {
    return quoted + " tells of events, which have no value to compare or devices to count";
  }
  return std::nullopt;
}

std::string rule_words(std::string_view name) {
  return "rule " + std::string(name);
}

std::optional<CheckSeverity> severity_in(std::string_view text) {
  CheckSeverity severity;
  severity.stops_job = text.starts_with('!');
  if (severity.stops_job) text.remove_prefix(1);
  const std::size_t step = text.find('>');
  const auto remedy = remedy_in(text.substr(0, step));
  if (!remedy) return std::nullopt;
  severity.remedy = *remedy;
  if (step == std::string_view::npos) return severity;
  severity.on_recurrence = remedy_in(text.substr(step + 1));
  return severity.on_recurrence ? std::optional(severity) : std::nullopt;
}

}  // namespace muster

#include "health/profile_rules.h"

#include <algorithm>

namespace muster {

namespace {

std::optional<Remedy> remedy_in(std::string_view text) {
  const auto found = std::ranges::find(remedy_words, text);
  if (found == remedy_words.end()) return std::nullopt;
  return static_cast<Remedy>(found - remedy_words.begin());
}

}  // namespace

std::vector<MedianRule> median_rules(const HealthProfile& profile, std::string_view check) {
  std::vector<MedianRule> rules;
  for (const ProfileRule& rule : profile.rules) {
    if (rule.op != RuleOperator::below_median_pct || rule.metric != check) continue;
    const auto severity = severity_in(rule.severity);
    if (severity) rules.push_back({rule.name, rule.arg, *severity});
  }
  return rules;
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

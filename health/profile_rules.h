// A profile's own rules: which of them are about a check or a figure, and which can never be
// carried out. Who carries them out: performance.h (`value` of a figure, `below_median_pct`),
// node_rules.h (`value` of any check, `count_of`), fleet_rules.h (`all_equal`, `majority`). Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/finding.h"
#include "health/model/profile_floor.h"
#include "scheduler/model/health_profile.h"

namespace muster {

// What a rule's number means says its operator.
struct RuleCase {
  std::string name;
  double arg = 0;
  CheckSeverity severity;
};

// By the figure's own name or its check's, in the order of the profile.
std::vector<RuleCase> rules_on_figure(const HealthProfile& profile, RuleOperator op,
                                      const PerformanceMetric& metric);

// Whether `metric` of a rule is the figure or its check.
bool is_about(const ProfileRule& rule, const PerformanceMetric& metric);

// A rule judges the figure on one node, so that it is measured without a floor too.
bool wants_figure(const HealthProfile& profile, std::string_view metric);

// The id of the check that a rule is about, also by one of its figures. As it stands when nothing
// is called so.
std::string_view check_of_rule(const ProfileRule& rule);

// Why a rule of this operator on this check or figure says nothing, ever; nothing: it may.
std::optional<std::string> why_never_judged(RuleOperator op, std::string_view metric);

// "rule slow-p2p", as findings name it.
std::string rule_words(std::string_view name);

// What text_of(CheckSeverity) wrote; nothing: another text.
std::optional<CheckSeverity> severity_in(std::string_view text);

}  // namespace muster

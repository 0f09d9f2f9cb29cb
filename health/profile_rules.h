// A profile's own rules, as far as they compare a node with the others: `below_median_pct`. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/finding.h"
#include "scheduler/model/health_profile.h"

namespace muster {

// So many percent worse than the fleet's median, and what that calls for.
struct MedianRule {
  std::string name;
  double percent = 0;
  CheckSeverity severity;
};

// Of a check that measures; in the order of the profile.
std::vector<MedianRule> median_rules(const HealthProfile& profile, std::string_view check);

// What text_of(CheckSeverity) wrote; nothing: another text.
std::optional<CheckSeverity> severity_in(std::string_view text);

}  // namespace muster

// The user's `muster.rules`: the first enforced rule whose every given condition matches decides. A
// pattern that is no regular expression matches nothing; patterns and lines are cut to a size that
// cannot hold up the controller.
#pragma once

#include <string>
#include <vector>

#include "scheduler/model/record.h"

namespace muster {

struct RuleMatch {
  const RestartRule* rule = nullptr;     // points into the settings; null: none matched
  std::string text;                      // "rule 2 (exit_code 42)"
  std::vector<std::string> only_logged;  // rules of `mode: log` that matched before it
};

RuleMatch match_rules(const MusterSettings& settings, const AttemptCause& cause);

}  // namespace muster

// What the judge of a check finds in files.
#pragma once

#include "health/checks/host/host_checks.h"
#include "tests/catch.h"

namespace muster {

inline std::vector<HealthFinding> judged(std::string_view id, const SourceFiles& files,
                                         const HealthProfile& profile,
                                         const HostSituation& situation = {}) {
  const CheckSpec* check = find_check(id);
  REQUIRE(check != nullptr);
  REQUIRE(check->judge != nullptr);
  CheckInput input{files, profile, check};
  input.host = &situation;
  return check->judge(input);
}

// Of one that has a single finding, or none.
inline std::optional<HealthFinding> judged_one(std::string_view id, const SourceFiles& files,
                                               const HealthProfile& profile,
                                               const HostSituation& situation = {}) {
  auto findings = judged(id, files, profile, situation);
  REQUIRE(findings.size() <= 1);
  if (findings.empty()) return std::nullopt;
  return std::move(findings.front());
}

}  // namespace muster

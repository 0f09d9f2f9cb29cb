// What the judge of a check finds in files.
#pragma once

#include <algorithm>

#include "health/checks/host/host_checks.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

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

// A healthy host of which one file says something else, and what becomes of a check on a device.
struct SpoiltFile {
  std::string path;
  std::string text;
  CheckStatus status;
  std::string value{};  // empty: any
  std::string severity{};
  std::string device{};
};
inline void check_spoilt(std::string_view check, const std::vector<SpoiltFile>& rows) {
  for (const SpoiltFile& row : rows) {
    INFO(row.path << ": " << row.text);
    SourceFiles files = healthy_host();
    files.add(row.path, row.text);
    const auto findings = judged(check, files, fake_profile());
    const auto found = std::ranges::find(findings, row.device, &HealthFinding::device);
    REQUIRE(found != findings.end());
    CHECK(found->status == row.status);
    if (!row.value.empty()) CHECK(found->value == row.value);
    if (!row.severity.empty()) CHECK(text_of(found->severity) == row.severity);
  }
}

}  // namespace muster

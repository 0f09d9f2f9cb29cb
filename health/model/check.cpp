#include "health/model/check.h"

#include <algorithm>

#include "scheduler/model/result.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

// Since the last bad sample, before a fault is over.
constexpr CheckLimit clear_after{"clear_after_s", "s"};

}  // namespace

std::vector<CheckSpec> joined_rows(std::initializer_list<std::span<const CheckSpec>> tables) {
  std::vector<CheckSpec> all;
  for (const auto table : tables) all.insert(all.end(), table.begin(), table.end());
  return all;
}

std::vector<HealthFinding> judge_group(std::span<const CheckSpec> checks, SourceGroup group,
                                       CheckInput input) {
  std::vector<HealthFinding> findings;
  for (const CheckSpec& check : checks) {
    if (check.group != group || !check.judge) continue;
    input.spec = &check;
    append_findings(findings, check.judge(input));
  }
  return findings;
}

const CheckLimit* find_limit(const CheckSpec& check, std::string_view name) {
  const auto found = std::ranges::find_if(
      check.limits, [&](const CheckLimit& limit) { return fits_pattern(limit.name, name); });
  if (found != check.limits.end()) return found;
  return name == clear_after.name ? &clear_after : nullptr;
}

std::optional<double> limit_of(const HealthProfile& profile, const CheckSpec& check,
                               std::string_view name) {
  const CheckLimit* limit = find_limit(check, name);
  muster::check(limit != nullptr, "a limit that is not in the check's row");
  const auto set = setting_of(profile, check.id).limits;
  const auto found = set.find(std::string(name));
  return found == set.end() ? limit->usual : std::optional(found->second);
}

double CheckInput::limit(std::string_view name) const {
  const auto limit = limit_if_any(name);
  muster::check(limit.has_value(), "a limit without a usual value");
  return *limit;
}

std::string text_of(const CheckSeverity& severity) {
  std::string text = severity.stops_job ? "!" : "";
  text += word_of(severity.remedy);
  if (severity.on_recurrence) text += ">" + std::string(word_of(*severity.on_recurrence));
  return text;
}

bool has_shared_cause(const HealthFinding& finding) {
  const CheckSpec* spec = find_check(finding.check);
  return finding.fault_class == FaultClass::infra || (spec && spec->is_often_shared);
}

HealthFinding make_finding(const CheckSpec& check, std::string device, CheckStatus status,
                           std::string value, std::string expected, std::string evidence) {
  HealthFinding finding;
  finding.check = check.id;
  finding.device = std::move(device);
  finding.status = status;
  finding.severity = check.severity;
  finding.fault_class = check.fault;
  finding.value = std::move(value);
  finding.expected = std::move(expected);
  finding.source = check.source;
  if (!evidence.empty()) finding.evidence.push_back(std::move(evidence));
  return finding;
}

}  // namespace muster

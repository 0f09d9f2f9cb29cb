#include "health/checks/host/host_checks.h"

#include <algorithm>

#include "scheduler/text/text.h"

namespace muster {

std::span<const CheckSpec> host_checks() {
  static const std::vector<CheckSpec> all =
      joined_rows({storage_checks(), kernel_state_checks(), process_checks(), mount_checks()});
  return all;
}

std::vector<std::string> host_sources(const HealthProfile& profile) {
  std::vector<std::string> sources;
  for (const CheckSpec& check : host_checks()) {
    if (check.group != SourceGroup::host) continue;
    for (const std::string_view one : check.reads) {
      if (std::ranges::find(sources, one) == sources.end()) sources.emplace_back(one);
    }
  }
  for (const CheckSpec& check : host_checks()) {
    if (!check.reads_for) continue;
    for (std::string& one : check.reads_for(profile)) sources.push_back(std::move(one));
  }
  return sources;
}

bool is_named_by(const HealthProfile& profile, std::string_view check) {
  return is_required(profile, check) || profile.checks.contains(std::string(check));
}

void JudgedCheck::warn(std::string value, std::string expected) {
  failed_.push_back(std::move(value));
  expected_.push_back(std::move(expected));
}

void JudgedCheck::fail(std::string value, std::string expected) {
  warn(std::move(value), std::move(expected));
  has_failed_hard_ = true;
}

void JudgedCheck::unreadable(std::string_view path, const FileReading& reading) {
  unknown(std::string(path) + ": " + (reading.ok() ? "not understood" : reading.error));
}

void JudgedCheck::require(bool holds, std::string value, std::string expected) {
  if (holds) return pass(std::move(value));
  fail(std::move(value), std::move(expected));
}

std::optional<HealthFinding> JudgedCheck::finding() const {
  if (passed_.empty() && failed_.empty() && unknown_.empty()) return std::nullopt;
  const CheckStatus status = !failed_.empty()    ? CheckStatus::fail
                             : !unknown_.empty() ? CheckStatus::unknown
                                                 : CheckStatus::pass;
  HealthFinding finding = make_finding(check_, device_, status);
  if (!source_.empty()) finding.source = source_;
  finding.value = joined(failed_.empty() ? passed_ : failed_);
  finding.expected = failed_.empty() ? std::string(check_.says) : joined(expected_);
  if (!failed_.empty() && !has_failed_hard_) finding.severity = only_warn;
  finding.evidence = unknown_;
  finding.evidence.insert(finding.evidence.end(), evidence_.begin(), evidence_.end());
  return finding;
}

}  // namespace muster

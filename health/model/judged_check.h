// A finding of several conditions on one device: fails when one of them does, else is unknown when
// one of them is. A judge adds conditions as it meets them; without any there is no finding.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/check.h"
#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"

namespace muster {

class JudgedCheck {
 public:
  explicit JudgedCheck(const CheckSpec& check, std::string device = {})
      : check_(check), device_(std::move(device)) {}

  void pass(std::string value) { passed_.push_back(std::move(value)); }
  void fail(std::string value, std::string expected);
  // A failure that is only written down, whatever the check's severity.
  void warn(std::string value, std::string expected);
  void unknown(std::string why) { unknown_.push_back(std::move(why)); }
  void unreadable(std::string_view path, const FileReading& reading);
  void require(bool holds, std::string value, std::string expected);
  void add_evidence(std::string line) { evidence_.push_back(std::move(line)); }
  void set_source(std::string source) { source_ = std::move(source); }

  std::optional<HealthFinding> finding() const;
  void add_to(std::vector<HealthFinding>& findings) const { append_findings(findings, finding()); }

 private:
  const CheckSpec& check_;
  std::string device_;
  std::string source_;  // empty: the check's
  std::vector<std::string> passed_;
  std::vector<std::string> failed_;
  std::vector<std::string> expected_;
  bool has_failed_hard_ = false;
  std::vector<std::string> unknown_;
  std::vector<std::string> evidence_;
};

// The judge of a row from what adds conditions to its only finding.
template <void (*judge)(JudgedCheck&, const CheckInput&)>
std::vector<HealthFinding> in_one_finding(const CheckInput& input) {
  JudgedCheck judged(input.check());
  judge(judged, input);
  std::vector<HealthFinding> findings;
  judged.add_to(findings);
  return findings;
}

// The same of each that a list of the profile's host names.
template <auto list, void (*judge)(JudgedCheck&, const CheckInput&, const std::string&)>
std::vector<HealthFinding> on_each_listed(const CheckInput& input) {
  std::vector<HealthFinding> findings;
  for (const std::string& name : input.profile.host.*list) {
    JudgedCheck judged(input.check(), name);
    judge(judged, input, name);
    judged.add_to(findings);
  }
  return findings;
}

// Required by the profile, or set there: what it would read is missed where it is not there.
bool is_named_by(const HealthProfile& profile, std::string_view check);

}  // namespace muster

// The profile's rules that one node is judged by alone, on what a run of its checks found: `value`
// on checks that read and do not measure, `count_of` on any. What is not known is unknown, and no
// rule makes a failure milder. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/finding.h"
#include "health/model/profile.h"

namespace muster {

// Which way a finding's own bound says that a number is worse.
enum class WorseWay { less, more };

// "<= 120" and "at most 9": more is. "> 0", "at least 2": less. Nothing: it names no bound.
std::optional<WorseWay> worse_way(std::string_view expected);

// Of "131", and of "400 Gb/sec" too; nothing: "28.40.1", "up".
std::optional<double> number_of(std::string_view value);

// Judges `findings` of one run, in their place, and adds those of `count_of`. `has_run`: whether
// the run was to find something of the check; then finding nothing is unknown.
void judge_by_rules(const HealthProfile& profile,
                    const std::function<bool(std::string_view check)>& has_run,
                    std::vector<HealthFinding>& findings);

// A failure is worse than what is not known, and that than a pass.
CheckStatus worse_of(CheckStatus one, CheckStatus other);

// `count_of` on one device each: how it stands.
struct DeviceStatus {
  std::string device;  // empty: the node
  CheckStatus status = CheckStatus::unknown;
};

// Nothing: the rule is none that can be carried out.
std::optional<HealthFinding> judge_count_of(const ProfileRule& rule,
                                            const std::vector<DeviceStatus>& devices);

// In the place of a finding on the same check and device that is not as bad, else beside it as a
// line of its evidence.
void put_finding(std::vector<HealthFinding>& findings, HealthFinding finding);

}  // namespace muster

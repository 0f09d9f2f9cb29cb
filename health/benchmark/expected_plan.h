// What measuring a node will take, told from its profile before anybody has looked at the node.
// Pure.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "health/benchmark/plan.h"

namespace muster {

// Where a profile does not say how many there are.
inline constexpr int expected_gpus = 8;
inline constexpr int expected_hcas = 8;

struct ExpectedMeasurement {
  std::vector<std::string> only{};  // probes, floor or none; none: those that have a floor
  std::string disk_directory{};     // empty: no disk is written
  bool all = false;                 // whatever a node can run
  std::optional<std::chrono::minutes> burn{};  // a full load of this time
  bool before_a_job = false;
};

// Of one node.
ProbePlan expected_plan(const HealthProfile& profile, const ExpectedMeasurement& wanted);

// What is left when each probe is killed at its limit.
std::chrono::seconds longest_time_of(const ProbePlan& plan);
std::vector<std::string> probe_names(const ProbePlan& plan);

// Without the probes that have another name, and what they would have measured.
void keep_only(ProbePlan& plan, std::span<const std::string> names);

}  // namespace muster

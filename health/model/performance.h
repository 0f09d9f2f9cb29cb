// What the performance checks measure and how a number is judged: by the profile's floor of its
// name, by the fleet. Floors age, and a fleet has no view of a slowdown that all nodes share: where
// there are both, both must hold. Of counted faults none is right, whoever says what. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "health/model/finding.h"
#include "health/model/profile.h"

namespace muster {

// A key of a profile's `floors`: what is measured by which check, in which unit, and how far from
// the fleet it may be. All-reduce is bus bandwidth inside one node, by its number of GPUs. GB/s are
// 1e9 B/s, Gb/s are of a link. Faults that are counted are no key of `floors`.
struct PerformanceMetric {
  std::string_view name;       // "p2p_gb_per_s"
  std::string_view check;      // "perf.p2p"
  std::string_view unit;       // "GB/s"
  bool is_ceiling = false;     // lower is better
  double fleet_pct = 5;        // how much worse than the fleet's median it may be
  bool counts_faults = false;  // neither a floor nor the fleet says what is right: 0
};

// No number of ours is outside, whatever its unit.
inline constexpr double profile_floor_min = 1e-3;
inline constexpr double profile_floor_max = 1e12;

std::span<const PerformanceMetric> performance_metrics();

// Nothing when there is no such metric.
const PerformanceMetric* find_performance_metric(std::string_view name);

// One number that a tool printed, or why there is none.
struct PerformanceSample {
  std::string metric;  // "p2p_gb_per_s"
  std::string device;  // "gpu2"; empty: the node
  std::optional<double> value;
  std::string error;       // of no value
  bool is_absent = false;  // for what measures it is not there: a matter of the node's setup
  std::string note{};      // of counted faults: which
  bool is_slight = false;  // they are worth a warning and no more
};

// What is known of a metric on other nodes of the kind.
struct FleetFigure {
  double median = 0;
  int nodes = 0;
};

// A median of fewer says little.
inline constexpr int fleet_min_nodes = 8;

// Nothing when neither a floor nor the fleet says what is right, and it is no count of faults.
std::optional<HealthFinding> judge_performance(const HealthProfile& profile,
                                               const PerformanceSample& sample,
                                               const FleetFigure& fleet);

}  // namespace muster

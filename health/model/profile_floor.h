// The numbers that performance checks measure, each a key of a profile's `floors`: what is measured
// by which check, in which unit, and how far from the fleet it may be. All-reduce is bus bandwidth
// inside one node, by its number of GPUs. GB/s are 1e9 B/s, Gb/s are of a link. Faults that are
// counted are no key of `floors`: whatever the profile says, none is right.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace muster {

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

}  // namespace muster

#include "health/learn/profile.h"

#include <cmath>

#include "health/checks/gpu/sources.h"
#include "health/checks/host/host_checks.h"
#include "health/checks/infiniband/sources.h"
#include "health/model/baseline.h"
#include "health/model/check.h"
#include "health/model/performance.h"

namespace muster {

namespace {

// Towards the worse, with three digits: more would pretend an accuracy that one node cannot give.
double with_margin(double measured, bool is_ceiling) {
  const double margin = learned_margin_pct / 100;
  const double bound = measured * (is_ceiling ? 1 + margin : 1 - margin);
  const int places = 2 - static_cast<int>(std::floor(std::log10(bound)));
  const double unit = std::pow(10.0, std::abs(places));
  const double scaled = places > 0 ? bound * unit : bound / unit;
  const double steps = is_ceiling ? std::ceil(scaled) : std::floor(scaled);
  return places > 0 ? steps / unit : steps * unit;
}

}  // namespace

NodeReadRequest learning_request() {
  NodeReadRequest request;
  request.sources = gpu_sources();
  for (const auto& more : {infiniband_sources(), host_sources({})})
    request.sources.insert(request.sources.end(), more.begin(), more.end());
  request.gpus = GpuReadingScope{.processes = false, .inforom = false};
  return request;
}

LearnedProfile learn_profile(const NodeReadings& readings, std::string profile_name) {
  BaselineNode node{readings.files, readings.gpus ? &*readings.gpus : nullptr};
  node.profile.name = std::move(profile_name);
  for (const CheckSpec* check : every_check()) {
    if (check->learn) check->learn(node);
  }
  return {std::move(node.profile), std::move(node.left_out)};
}

void learn_floors(const std::map<std::string, double>& measured, HealthProfile& profile) {
  for (const auto& [name, value] : measured) {
    const PerformanceMetric* metric = find_performance_metric(name);
    const bool is_floor = metric != nullptr && !metric->counts_faults;
    if (!is_floor || !(value >= profile_floor_min && value <= profile_floor_max)) continue;
    profile.floors[name] = with_margin(value, metric->is_ceiling);
  }
}

}  // namespace muster

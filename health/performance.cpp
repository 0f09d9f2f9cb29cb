#include "health/performance.h"

#include <cmath>
#include <cstdio>

#include "health/catalogue.h"
#include "scheduler/model/result.h"

namespace muster {

namespace {

struct Bound {
  double value;
  std::string from;  // "floor of the profile"
};

std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

Bound share_of(double median, double pct, bool is_ceiling, const char* whose) {
  const double factor = is_ceiling ? 1 + pct / 100 : 1 - pct / 100;
  return {median * factor, std::string(whose) + " median " + number_text(median) +
                               (is_ceiling ? " +" : " -") + number_text(pct) + " %"};
}

std::vector<Bound> bounds_of(const HealthProfile& profile, const PerformanceMetric& metric,
                             const PerformancePeers& peers) {
  std::vector<Bound> bounds;
  const auto floor = profile.floors.find(std::string(metric.name));
  if (floor != profile.floors.end()) {
    bounds.push_back(
        {floor->second, metric.is_ceiling ? "limit of the profile" : "floor of the profile"});
  }
  if (metric.node_pct && peers.node_median) {
    bounds.push_back(share_of(*peers.node_median, *metric.node_pct, metric.is_ceiling, "node"));
  }
  if (peers.fleet_median && peers.fleet_nodes >= fleet_min_nodes) {
    bounds.push_back(share_of(*peers.fleet_median, metric.fleet_pct, metric.is_ceiling, "fleet"));
  }
  return bounds;
}

// The one that is hardest to meet.
const Bound& strictest(const std::vector<Bound>& bounds, bool is_ceiling) {
  const Bound* best = &bounds.front();
  for (const Bound& bound : bounds) {
    const bool is_stricter = is_ceiling ? bound.value < best->value : bound.value > best->value;
    if (is_stricter) best = &bound;
  }
  return *best;
}

}  // namespace

std::optional<HealthFinding> judge_performance(const HealthProfile& profile,
                                               const PerformanceSample& sample,
                                               const PerformancePeers& peers) {
  const PerformanceMetric* metric = find_performance_metric(sample.metric);
  check(metric != nullptr, "a performance sample of an unknown metric");
  const std::vector<Bound> bounds = bounds_of(profile, *metric, peers);
  if (bounds.empty()) return std::nullopt;
  const Bound& bound = strictest(bounds, metric->is_ceiling);
  HealthFinding finding = make_finding(metric->check, sample.device, CheckStatus::unknown);
  finding.expected = (metric->is_ceiling ? "<= " : ">= ") + number_text(bound.value);
  finding.unit = metric->unit;
  if (!sample.value || !std::isfinite(*sample.value)) {
    finding.evidence = {sample.metric + ": " + (sample.error.empty() ? "no number" : sample.error)};
    if (sample.is_absent) finding.fault_class = FaultClass::setup;
    return finding;
  }
  const bool is_met =
      metric->is_ceiling ? *sample.value <= bound.value : *sample.value >= bound.value;
  finding.status = is_met ? CheckStatus::pass : CheckStatus::fail;
  finding.value = number_text(*sample.value);
  finding.evidence = {sample.metric + ", " + bound.from};
  return finding;
}

}  // namespace muster

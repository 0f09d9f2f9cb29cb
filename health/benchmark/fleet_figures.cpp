#include "health/benchmark/fleet_figures.h"

#include <algorithm>
#include <set>

#include "health/compare/majority.h"

namespace muster {

namespace {

// Of the node's devices.
std::map<std::string, double> medians_of(const std::vector<PerformanceSample>& samples) {
  std::map<std::string, std::vector<double>> values;
  for (const PerformanceSample& sample : samples) {
    if (sample.value) values[sample.metric].push_back(*sample.value);
  }
  std::map<std::string, double> medians;
  for (auto& [metric, all] : values) {
    if (const auto median = median_of(std::move(all))) medians.emplace(metric, *median);
  }
  return medians;
}

// Not even an error: its probe was never run there, or what it said was cut off.
std::vector<PerformanceSample> untold(const std::vector<PerformanceSample>& samples,
                                      const std::map<std::string, FleetFigure>& fleet) {
  std::vector<PerformanceSample> missing;
  for (const auto& [metric, figure] : fleet) {
    const bool is_told = std::ranges::any_of(
        samples, [&](const PerformanceSample& one) { return one.metric == metric; });
    if (!is_told) missing.push_back({metric, "", std::nullopt, "the node said nothing of it"});
  }
  return missing;
}

}  // namespace

std::map<std::string, FleetFigure> fleet_figures(const NodeFigures& by_node) {
  std::map<std::string, std::vector<double>> values;
  for (const auto& [node, samples] : by_node) {
    for (const auto& [metric, median] : medians_of(samples)) values[metric].push_back(median);
  }
  std::map<std::string, FleetFigure> figures;
  for (auto& [metric, all] : values) {
    const int nodes = static_cast<int>(all.size());
    if (const auto median = median_of(std::move(all))) figures[metric] = {*median, nodes};
  }
  return figures;
}

std::map<std::string, std::vector<FleetJudgement>> judge_fleet(const HealthProfile& profile,
                                                               const NodeFigures& by_node) {
  const auto fleet = fleet_figures(by_node);
  std::map<std::string, std::vector<FleetJudgement>> judged;
  for (const auto& [node, said] : by_node) {
    for (const PerformanceSample& sample : said) {
      auto finding = judge_sample(profile, said, sample, fleet);
      auto alone = judge_sample(profile, said, sample, {});
      if (finding && finding != alone) judged[node].push_back({*std::move(finding), alone});
    }
    for (const PerformanceSample& sample : untold(said, fleet)) {
      auto finding = judge_sample(profile, said, sample, fleet);
      if (finding) judged[node].push_back({*std::move(finding), std::nullopt});
    }
  }
  return judged;
}

}  // namespace muster

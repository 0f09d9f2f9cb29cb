// What benchmarks printed (tools/tools.h), as samples, and these as findings. Pure.
//
// Lines come from another process, perhaps a killed one, perhaps on another node: nothing in them
// is trusted. A line that has no end may have lost a part of its number, and is none.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/finding.h"
#include "health/model/performance.h"
#include "health/model/profile.h"

namespace muster {

// Eight GPUs have 56 pairs; sixteen 240.
inline constexpr std::size_t probe_samples_max = 4096;

struct ProbeOutput {
  std::vector<PerformanceSample> samples;  // in the order of their lines, each device once
  std::size_t refused = 0;                 // lines that are none
  std::string first_refused;               // its readable characters
  double waited_pct = 0;                   // of its time the probe waited for a processor
};

ProbeOutput read_probe_output(std::string_view text);

// A sample without a number for each of the metrics that has none on any device: "the probe was
// killed after 60 s".
void add_missing_samples(ProbeOutput& output, std::span<const std::string> metrics,
                         const std::string& why);

// One of a node's samples. Nothing: neither the profile nor others can judge it, or its check is
// off or its device left out.
std::optional<HealthFinding> judge_sample(const HealthProfile& profile,
                                          const PerformanceSample& sample,
                                          const std::map<std::string, FleetFigure>& fleet);

// All of those that can be judged, and how many of the devices pass where a rule counts them.
std::vector<HealthFinding> judge_samples(const HealthProfile& profile,
                                         std::span<const PerformanceSample> samples,
                                         const std::map<std::string, FleetFigure>& fleet);

// What a profile learns from: of each metric the worst device's number. Nothing of a metric that
// failed on any device.
std::map<std::string, double> worst_values(std::span<const PerformanceSample> samples);

// What probes measured on several nodes of one kind, compared: a node whose figure is further from
// the median of all than its metric, or a rule of the profile, allows. A slowdown that all share is
// for the floors to see. Pure.

// By node, what its probes said.
using NodeFigures = std::map<std::string, std::vector<PerformanceSample>>;

// By metric: the median over the nodes, each with the median of its own devices.
std::map<std::string, FleetFigure> fleet_figures(const NodeFigures& by_node);

// What the fleet changes about one figure of a node.
struct FleetJudgement {
  HealthFinding finding;
  std::optional<HealthFinding> alone;  // what the node tells of the same figure without the others
};

// By node. A figure that others have and a node has not is unknown there. Nothing of a metric with
// fewer than fleet_min_nodes, nor where a floor is stricter.
std::map<std::string, std::vector<FleetJudgement>> judge_fleet(const HealthProfile& profile,
                                                               const NodeFigures& by_node);

}  // namespace muster

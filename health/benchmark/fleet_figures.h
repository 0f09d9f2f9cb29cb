// What probes measured on several nodes of one kind, compared: a node whose figure is further from
// the median of all than its metric, or a rule of the profile, allows. A slowdown that all share is
// for the floors to see. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "health/benchmark/samples.h"
#include "health/model/finding.h"
#include "health/model/performance.h"
#include "health/model/profile.h"

namespace muster {

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

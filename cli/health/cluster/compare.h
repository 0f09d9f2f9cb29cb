// What several nodes measured, beside each other: the median of each figure and who is furthest
// from it, and what the fleet's median says of each node. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/health/cluster/health_fleet.h"
#include "cli/health/health_report.h"
#include "cli/health/result.h"
#include "cli/terminal/document.h"
#include "scheduler/model/clock.h"

namespace muster {

// Nodes of one target and profile, from fleet_min_nodes on. A figure that is worse than the median
// allows takes the place of what the node said of it. A measurement is believed at once: where the
// profile enforces its check the node is not fit.
void compare_figures(std::vector<NodeAnswer>& answers, const ProfileOf& profile_of, Time now);

// Empty: nothing was measured.
std::string figures_table(const std::vector<NodeAnswer>& answers, const HealthTextForm& form);
// [{target, profile, metric, unit, nodes, median, worst, node, compared}]
Document figures_document(const std::vector<NodeAnswer>& answers);

}  // namespace muster

// What several nodes answered when their health was asked, beside each other: what only nodes
// together show is added to what each of them said, and all of it is shown to people and programs.
// Pure.
//
// The result for machines; absent things are null:
//   nodes: [{node, target, state: drained|unreachable|unclear|ok, why,
//            and, of one that answers, what `muster health -o json` says there}], worst first
//   summary: {ok, drained, unclear, unreachable: [names]}
//   figures: of nodes that were benchmarked
//            [{target, profile, metric, unit, nodes, median, worst, node, compared}]
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/health/result.h"
#include "cli/terminal/document.h"
#include "health/model/profile.h"
#include "scheduler/text/clock.h"

namespace muster {

// Nodes of one target and profile are compared. What is serious and enforced makes a node unclear:
// it was looked at once, and it is not for this to drain. So does silence: nothing was checked, or
// every check is unknown.
using ProfileOf = std::function<HealthProfile(const HostHealth&)>;
void compare_nodes(std::vector<HostHealth>& answers, const std::vector<std::string>& checks,
                   const ProfileOf& profile_of, Time now);

// Nodes of one target and profile, from fleet_min_nodes on. A figure that is worse than the median
// allows takes the place of what the node said of it. A measurement is believed at once: where the
// profile enforces its check the node is not fit.
void compare_figures(std::vector<HostHealth>& answers, const ProfileOf& profile_of, Time now);

// Drained, unreachable, unclear, ok; n2 before n10.
void sort_worst_first(std::vector<HostHealth>& answers);
// 1 when one is drained, else 3 when one is unclear or does not answer.
HealthExit health_exit(const std::vector<HostHealth>& answers);

// Of answers that are sorted.
std::string nodes_text(const std::vector<HostHealth>& answers, const HealthTextForm& form);
// "2 ok (h01, h04), 1 drained (h02)"
std::string nodes_summary(const std::vector<HostHealth>& answers);
Document nodes_document(const std::vector<HostHealth>& answers);

}  // namespace muster

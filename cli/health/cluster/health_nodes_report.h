// What several nodes answered when their health was asked, for people, programs and monitors. Pure.
//
// The result for machines; absent things are null:
//   nodes: [{node, target, state: drained|unreachable|unclear|ok, why,
//            and, of one that answers, what `muster health -o json` says there}], worst first
//   summary: {ok, drained, unclear, unreachable: [names]}
//   figures: of nodes that were measured, as figures_document writes them
#pragma once

#include <string>
#include <vector>

#include "cli/health/health_report.h"
#include "cli/health/result.h"
#include "cli/terminal/document.h"

namespace muster {

// Drained, unreachable, unclear, ok; n2 before n10.
void sort_worst_first(std::vector<NodeAnswer>& answers);
// 1 when one is drained, else 3 when one is unclear or does not answer.
HealthExit health_exit(const std::vector<NodeAnswer>& answers);
std::vector<FindingReport> reports_of(const std::vector<NodeAnswer>& answers);

// Of answers that are sorted.
std::string nodes_text(const std::vector<NodeAnswer>& answers, const HealthTextForm& form);
// "2 ok (h01, h04), 1 drained (h02)"
std::string nodes_summary(const std::vector<NodeAnswer>& answers);
Document nodes_document(const std::vector<NodeAnswer>& answers);

}  // namespace muster

#include "health/verdict/job_blame.h"

#include <algorithm>
#include <cstddef>
#include <set>

namespace muster {

namespace {

using NodeSet = std::set<NodeId>;

bool are_disjoint(const NodeSet& a, const NodeSet& b) {
  return std::ranges::none_of(a, [&](const NodeId& node) { return b.contains(node); });
}

}  // namespace

bool fails_by_itself(std::span<const FailedAttempt> attempts) {
  std::set<NodeSet> sets;  // a crash loop has few of them, however often it was requeued
  for (const FailedAttempt& attempt : attempts) {
    if (attempt.has_node_fault || attempt.nodes.empty()) continue;
    const NodeSet nodes(attempt.nodes.begin(), attempt.nodes.end());
    const auto is_apart = [&](const NodeSet& other) { return are_disjoint(nodes, other); };
    if (std::ranges::any_of(sets, is_apart)) return true;
    sets.insert(nodes);
  }
  return false;
}

}  // namespace muster

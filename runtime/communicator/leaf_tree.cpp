#include "runtime/communicator/leaf_tree.h"

#include <bit>

namespace muster {
namespace {

bool are_siblings(const Subtree& left, const Subtree& right) {
  return left.count == right.count && left.first % (2 * left.count) == 0 &&
         right.first == left.first + left.count;
}

}  // namespace

LeafRange owned_leaves(std::size_t leaves, std::size_t rank, std::size_t ranks) {
  return {rank * leaves / ranks, (rank + 1) * leaves / ranks};
}

std::vector<Subtree> subtrees_of(const LeafRange& range) {
  std::vector<Subtree> nodes;
  std::size_t at = range.lo;
  while (at < range.hi) {
    std::size_t count = std::bit_floor(range.hi - at);
    while (at % count != 0) count /= 2;
    nodes.push_back({at, count});
    at += count;
  }
  return nodes;
}

void TreeJoin::push(const Subtree& node, std::size_t slot) {
  entries_.push_back({node, slot});
  while (entries_.size() >= 2) {
    Entry& left = entries_[entries_.size() - 2];
    const Entry right = entries_.back();
    if (!are_siblings(left.node, right.node)) return;
    add_(left.slot, right.slot);
    left.node.count *= 2;
    entries_.pop_back();
  }
}

void TreeJoin::finish() {
  for (; entries_.size() > 1; entries_.pop_back()) {
    add_(entries_[entries_.size() - 2].slot, entries_.back().slot);
  }
}

double tree_sum(std::span<const double> values) {
  if (values.empty()) return 0;
  if (values.size() == 1) return values[0];
  const std::size_t whole = std::bit_floor(values.size() - 1);
  return tree_sum(values.first(whole)) + tree_sum(values.subspan(whole));
}

}  // namespace muster

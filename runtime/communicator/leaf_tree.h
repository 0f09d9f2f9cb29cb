// Sums in a fixed binary tree, so that they do not depend on the number of ranks.
//
// The global batch is cut into L leaves, each summed in order. Leaves are joined pairwise: (0+1),
// (2+3), ..., then pairs of those, up to the root; where L is no power of two, the incomplete nodes
// at the end are joined last, from the right. A rank owns a contiguous range of leaves; it joins
// what lies below one node of the tree and sends the few nodes that are left, at most 2 log2 L.
// Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace muster {

// Leaves [first, first + count): one node of the tree, so count is a power of two that divides
// first.
struct Subtree {
  std::size_t first = 0;
  std::size_t count = 0;
  friend bool operator==(const Subtree&, const Subtree&) = default;
};

// Leaves [lo, hi) that rank `rank` of `ranks` owns.
struct LeafRange {
  std::size_t lo = 0;
  std::size_t hi = 0;
};
LeafRange owned_leaves(std::size_t leaves, std::size_t rank, std::size_t ranks);

// The fewest tree nodes that cover the range, from left to right.
std::vector<Subtree> subtrees_of(const LeafRange& range);

// Joins nodes that are pushed from left to right; siblings merge as soon as both are there, the
// right one into the left one. Values are known by a slot number of the caller.
class TreeJoin {
 public:
  // add(left, right): left += right, after which slot `right` is free.
  using Add = std::function<void(std::size_t left, std::size_t right)>;
  explicit TreeJoin(Add add) : add_(std::move(add)) {}

  void push(const Subtree& node, std::size_t slot);
  // After the last leaf of all: joins what has no sibling.
  void finish();

  struct Entry {
    Subtree node;
    std::size_t slot = 0;
  };
  // What could not be merged further, from left to right.
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  Add add_;
  std::vector<Entry> entries_;
};

// The sum of one value per leaf.
double tree_sum(std::span<const double> values);

}  // namespace muster

// Buckets: what of the flat space is sent at one time.
//
// A bucket is a run of whole blocks of the model (gpt_blocks), large enough that a
// transfer is worth its start; what is too large for one transfer goes in several. Buckets have
// nothing to do with who owns what: ownership is contiguous in the flat space, so that a checkpoint
// fits any number of ranks without conversion. The price is that a bucket has one or two owners,
// whose links carry all of it while those of the others idle; in exchange a rank's own layers need
// no gathering at all. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/checkpoint/flat_space.h"
#include "runtime/model/gpt.h"

namespace muster {

// Sums in a fixed binary tree, so that they do not depend on the number of ranks.
//
// The global batch is cut into L leaves, each summed in order. Leaves are joined pairwise: (0+1),
// (2+3), ..., then pairs of those, up to the root; where L is no power of two, the incomplete nodes
// at the end are joined last, from the right. A rank owns a contiguous range of leaves; it joins
// what lies below one node of the tree and sends the few nodes that are left, at most 2 log2 L.
// Pure.

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

struct BucketLimits {
  std::uint64_t least_bytes = 8 << 20;   // neighbours are joined below this
  std::uint64_t most_bytes = 256 << 20;  // of one transfer
};

struct Bucket {
  std::size_t first_block = 0;
  std::size_t blocks = 0;
  ElementRange elements;
  std::vector<ElementRange> pieces;  // one transfer each
};

// Joins blocks from the last to the first, the order in which gradients become complete; what is
// left at the beginning, too small for a bucket, joins its neighbour. The blocks touch each other
// and begin at multiples of 1024 elements, and so do the pieces. `first` is the number of
// blocks[0].
std::vector<Bucket> make_buckets(std::span<const ElementRange> blocks, const BucketLimits& limits,
                                 std::size_t first = 0);

// Which bucket every block lies in; blocks in none get buckets.size().
std::vector<std::size_t> buckets_of_blocks(std::span<const Bucket> buckets, std::size_t blocks);

// The part of `range` that lies in `within`, relative to the begin of `within`; empty ones are
// {0, 0}.
ElementRange part_within(const ElementRange& range, const ElementRange& within);
std::vector<ElementRange> parts_within(std::span<const ElementRange> ranges,
                                       const ElementRange& within);

// Who owns which elements, and which nodes of the leaf tree every rank brings to a step. The same
// on all ranks but for `rank`.
struct Division {
  std::size_t rank = 0;                     // this one
  std::vector<ElementRange> owned;          // elements, by rank
  std::vector<std::vector<Subtree>> nodes;  // by rank, from left to right
  const ElementRange& own() const { return owned[rank]; }
};

inline Division make_division(const FlatSpace& space, std::size_t leaves, std::size_t rank,
                              std::size_t ranks) {
  Division division{rank, {}, {}};
  for (std::size_t r = 0; r < ranks; ++r) {
    division.owned.push_back(owned_elements(space, r, ranks));
    division.nodes.push_back(subtrees_of(owned_leaves(leaves, r, ranks)));
  }
  return division;
}

// How many pieces of the gradient may be on their way to a rank: without a bound it would receive
// as much as the whole model.
inline constexpr std::size_t pieces_under_way = 4;

// Which blocks a model's gradients come in, and which buckets they leave in.
struct GradientPlan {
  std::vector<ElementRange> blocks;
  std::vector<Bucket> buckets;  // of all blocks
  std::uint64_t numel = 0;
};

// Of one piece of the gradient at most.
std::uint64_t most_piece_bytes(const BucketLimits& limits, const Division& division);

// With pieces so small that an owner receives a bounded amount of each.
GradientPlan make_gradient_plan(const GptShape& shape, const BucketLimits& limits,
                                const FlatSpace& space, const Division& division);

}  // namespace muster

// Which blocks a model's gradients come in, and which buckets they leave in. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/checkpoint/flat_space.h"
#include "runtime/communicator/leaf_tree.h"
#include "runtime/model/gpt.h"
#include "runtime/zero/bucket.h"

namespace muster {

// Who owns which elements, and which nodes of the leaf tree every rank brings to a step. The same
// on all ranks but for `rank`. Pure.

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

// Who owns which elements, and which nodes of the leaf tree every rank brings to a step. The same
// on all ranks but for `rank`. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/checkpoint/flat_space.h"
#include "runtime/communicator/leaf_tree.h"

namespace muster {

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

}  // namespace muster

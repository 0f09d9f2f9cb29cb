// Which nodes are paired across leaves in one round: leaves are matched at random, and below two
// matched leaves nodes so that the pairs cover what is wanted and never share a link in one
// direction: pairs that do would be slow together without a fault.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "health/localise/crossings.h"

namespace muster {

// A suspected part, and nodes from which a pair may cross it.
struct PartTarget {
  PartIndex part = 0;
  std::size_t rail = 0;
  std::vector<NodeIndex> from;
};

// How much a test of a part is wanted.
struct WantedParts {
  std::vector<std::uint8_t> tests;      // of each part, in this round
  std::vector<std::uint8_t> suspected;  // not to be in one pair with another that is
  std::vector<PartTarget> targets;
  bool only_apart = false;  // a pair that has two suspects in it is of no use
};

using Leaves = std::vector<std::vector<NodeIndex>>;

// `free`: the nodes of each leaf that may be used. `busy`: directions of links that are in use.
// Pairs that nothing is wanted of are left out.
std::vector<std::pair<NodeIndex, NodeIndex>> plan_across(
    const Leaves& free, const WantedParts& wanted, const Crossings& crossings, std::size_t rails,
    const std::vector<bool>& busy, std::mt19937_64& random);

// Without knowledge of routes: the k-th node of a leaf with the k+1st of another. Where routes
// follow the number of the receiver, as they mostly do, no two of these pairs share a link.
std::vector<std::pair<NodeIndex, NodeIndex>> plan_across_blindly(const Leaves& free,
                                                                 std::mt19937_64& random);

// The same order for the same seed with every library.
template <typename T>
void shuffle(std::vector<T>& values, std::mt19937_64& random) {
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[static_cast<std::size_t>(random() % i)]);
  }
}

}  // namespace muster

#include "runtime/zero/bucket.h"

#include <string>

#include "tests/catch.h"

using namespace muster;

namespace {

// Joins leaves "0".."7" by the given ranks and shows the order of the sums as brackets.
std::string joined_by(std::size_t leaves, std::size_t ranks) {
  std::vector<std::string> all;
  std::vector<TreeJoin::Entry> nodes;
  for (std::size_t r = 0; r < ranks; ++r) {
    const LeafRange range = owned_leaves(leaves, r, ranks);
    std::vector<std::string> own;
    TreeJoin join([&](std::size_t left, std::size_t right) {
      own[left] = "(" + own[left] + own[right] + ")";
    });
    for (std::size_t leaf = range.lo; leaf < range.hi; ++leaf) {
      own.push_back(std::to_string(leaf));
      join.push({leaf, 1}, own.size() - 1);
    }
    std::vector<Subtree> left;
    for (const auto& entry : join.entries()) {
      left.push_back(entry.node);
      nodes.push_back({entry.node, all.size()});
      all.push_back(own[entry.slot]);
    }
    CHECK(left == subtrees_of(range));
  }
  TreeJoin join(
      [&](std::size_t left, std::size_t right) { all[left] = "(" + all[left] + all[right] + ")"; });
  for (const auto& entry : nodes) join.push(entry.node, entry.slot);
  join.finish();
  REQUIRE(join.entries().size() == 1);
  return all[join.entries()[0].slot];
}

}  // namespace

TEST_CASE("leaves are joined in the same tree by any number of ranks") {
  CHECK(joined_by(8, 1) == "(((01)(23))((45)(67)))");
  CHECK(joined_by(7, 1) == "(((01)(23))((45)6))");
  for (std::size_t leaves = 1; leaves <= 33; ++leaves) {
    for (std::size_t ranks = 2; ranks <= leaves; ++ranks) {
      CHECK(joined_by(leaves, ranks) == joined_by(leaves, 1));
    }
  }
}

TEST_CASE("the sum of losses takes the same tree") {
  const std::vector<double> values{1e16, 1, -1e16, 1};
  CHECK(tree_sum(values) == (1e16 + 1) + (-1e16 + 1));
  CHECK(tree_sum(std::vector<double>{3}) == 3);
  CHECK(tree_sum(std::vector<double>{1, 1e16, -1e16}) == (1 + 1e16) - 1e16);
}

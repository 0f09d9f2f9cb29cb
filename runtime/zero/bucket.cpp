#include "runtime/zero/bucket.h"

#include <algorithm>
#include <utility>

namespace muster {
namespace {

bool are_siblings(const Subtree& left, const Subtree& right) {
  return left.count == right.count && left.first % (2 * left.count) == 0 &&
         right.first == left.first + left.count;
}

// What an owner may receive of one piece.
constexpr std::uint64_t received_bytes = 32 << 20;

std::vector<ElementRange> cut(const ElementRange& elements, std::uint64_t most_bytes) {
  const std::uint64_t most =
      std::max<std::uint64_t>(1, most_bytes / (flat_align_elements * sizeof(float))) *
      flat_align_elements;
  std::vector<ElementRange> pieces;
  for (std::uint64_t at = elements.lo; at < elements.hi; at += most) {
    pieces.push_back({at, std::min(at + most, elements.hi)});
  }
  return pieces;
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

std::vector<Bucket> make_buckets(std::span<const ElementRange> blocks, const BucketLimits& limits,
                                 std::size_t first) {
  std::vector<Bucket> buckets;  // from the last to the first
  const auto is_small = [&](const Bucket& bucket) {
    return bucket.elements.size() * sizeof(float) < limits.least_bytes;
  };
  for (std::size_t block = blocks.size(); block-- > 0;) {
    if (buckets.empty() || !is_small(buckets.back())) {
      buckets.push_back({first + block, 0, {blocks[block].hi, blocks[block].hi}, {}});
    }
    Bucket& last = buckets.back();
    last.first_block = first + block;
    last.elements.lo = blocks[block].lo;
    ++last.blocks;
  }
  if (buckets.size() > 1 && is_small(buckets.back())) {
    const Bucket rest = buckets.back();
    buckets.pop_back();
    buckets.back().first_block = rest.first_block;
    buckets.back().elements.lo = rest.elements.lo;
    buckets.back().blocks += rest.blocks;
  }
  std::reverse(buckets.begin(), buckets.end());
  for (Bucket& bucket : buckets) bucket.pieces = cut(bucket.elements, limits.most_bytes);
  return buckets;
}

std::vector<std::size_t> buckets_of_blocks(std::span<const Bucket> buckets, std::size_t blocks) {
  std::vector<std::size_t> of(blocks, buckets.size());
  for (std::size_t index = 0; index < buckets.size(); ++index) {
    const Bucket& bucket = buckets[index];
    for (std::size_t i = 0; i < bucket.blocks; ++i) of[bucket.first_block + i] = index;
  }
  return of;
}

ElementRange part_within(const ElementRange& range, const ElementRange& within) {
  const std::uint64_t lo = std::max(range.lo, within.lo);
  const std::uint64_t hi = std::min(range.hi, within.hi);
  return lo < hi ? ElementRange{lo - within.lo, hi - within.lo} : ElementRange{};
}

std::vector<ElementRange> parts_within(std::span<const ElementRange> ranges,
                                       const ElementRange& within) {
  std::vector<ElementRange> parts;
  for (const ElementRange& range : ranges) parts.push_back(part_within(range, within));
  return parts;
}

std::uint64_t most_piece_bytes(const BucketLimits& limits, const Division& division) {
  std::uint64_t nodes = 0;
  for (const auto& of_rank : division.nodes) nodes += of_rank.size();
  return std::min(limits.most_bytes, received_bytes / nodes);
}

GradientPlan make_gradient_plan(const GptShape& shape, const BucketLimits& limits,
                                const FlatSpace& space, const Division& division) {
  std::vector<ElementRange> blocks = gpt_blocks(shape, space);
  std::vector<Bucket> buckets =
      make_buckets(blocks, {limits.least_bytes, most_piece_bytes(limits, division)});
  return {std::move(blocks), std::move(buckets), space.numel};
}

}  // namespace muster

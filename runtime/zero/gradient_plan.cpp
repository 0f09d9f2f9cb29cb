#include "runtime/zero/gradient_plan.h"

#include <algorithm>
#include <utility>

namespace muster {
namespace {

// What an owner may receive of one piece.
constexpr std::uint64_t received_bytes = 32 << 20;

}  // namespace

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

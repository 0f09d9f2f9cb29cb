// Which blocks a model's gradients come in, and which buckets they leave in. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/model/gpt.h"
#include "runtime/zero/bucket.h"
#include "runtime/zero/division.h"

namespace muster {

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

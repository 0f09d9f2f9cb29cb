// How the sequences of one step are cut: leaves of the summation tree, and micro-batches inside a
// leaf.
//
// batch = leaves x (sequences per leaf), a leaf is summed micro-batch by micro-batch in order. In
// deterministic mode the number of leaves is fixed by the batch, so the bits of a step do not
// depend on the ranks; otherwise it is the number of ranks, rounded up to a power of two, which
// makes the largest matrix products. Pure.
#pragma once

#include <cstdint>

#include "runtime/train/options.h"

namespace muster {

struct BatchPlan {
  std::uint64_t batch = 0;        // sequences per step
  std::uint64_t leaves = 1;       // a power of two, at least the number of ranks
  std::uint64_t micro_batch = 0;  // sequences per forward pass
  std::uint64_t leaf_sequences() const { return batch / leaves; }
  std::uint64_t micro_batches() const { return batch / micro_batch; }  // V
};

// Throws StartError when the options do not fit each other or the number of ranks.
BatchPlan make_batch_plan(const TrainOptions& options, std::size_t ranks);

}  // namespace muster

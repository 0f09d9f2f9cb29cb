// Everything that training changes, and nothing that can be recomputed.
//
// Every rank holds all weights, and the optimizer's moments only for the elements it owns; weights
// of other owners are copies. After step k of any run that began alike, these values are the same.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/checkpoint/flat_space.h"

namespace muster {

struct TrainingProgress {
  std::uint64_t step = 0;  // finished updates
  double loss_ema = 0;     // 0.98 of the old value + 0.02 of the loss; the first loss at step 1
  std::uint64_t skipped_in_a_row = 0;  // steps without an update, because of a non-finite gradient
};

struct TrainingState : TrainingProgress {
  std::vector<float> weights;     // [numel]
  ElementRange owned;             // of this rank
  std::vector<float> exp_avg;     // [owned.size()]
  std::vector<float> exp_avg_sq;  // [owned.size()]
};

}  // namespace muster

// The learning rate of a step: linear warm-up, then constant or a half cosine down to a tenth.
//
//   step s counts from 1;  s <= warmup: peak s / warmup
//   decay_steps = 0: peak;  else peak (0.1 + 0.9 (1 + cos(pi min(1, (s - warmup) / decay_steps))) /
//   2)
//
// A pure function of the step, so that a resumed run continues it. It does not look at the length
// of the run: asking for more steps later changes nothing that was already trained.
#pragma once

#include <cstdint>

namespace muster {

struct LearningRate {
  double peak = 1e-3;
  std::uint64_t warmup_steps = 20;
  std::uint64_t decay_steps = 0;

  double at(std::uint64_t step) const;
};

}  // namespace muster

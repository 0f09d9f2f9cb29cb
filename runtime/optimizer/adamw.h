// AdamW (Loshchilov, Hutter 2019, algorithm 2, in the order of PyTorch's implementation).
//
//   g = gradient_scale * gradient
//   p <- p - lr decay p
//   m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2
//   p <- p - lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//
// Element by element over equally long spans; `decay` is 0 where weight decay does not apply. t
// counts from 1. Powers and products of constants are formed in fp64 and rounded once.
#pragma once

#include <cstdint>
#include <span>

namespace muster {

struct AdamwSettings {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double decay = 0.1;
};

struct AdamwStep {
  double lr = 0;
  double decay = 0;
  double gradient_scale = 1;
  std::uint64_t t = 1;
};

void adamw(const AdamwSettings& settings, const AdamwStep& step, std::span<const float> gradient,
           std::span<float> p, std::span<float> m, std::span<float> v);

// The learning rate of a step: linear warm-up, then constant or a half cosine down to a tenth.
//
//   step s counts from 1;  s <= warmup: peak s / warmup
//   decay_steps = 0: peak;  else peak (0.1 + 0.9 (1 + cos(pi min(1, (s - warmup) / decay_steps))) /
//   2)
//
// A pure function of the step, so that a resumed run continues it. It does not look at the length
// of the run: asking for more steps later changes nothing that was already trained.
struct LearningRate {
  double peak = 1e-3;
  std::uint64_t warmup_steps = 20;
  std::uint64_t decay_steps = 0;

  double at(std::uint64_t step) const;
};

}  // namespace muster

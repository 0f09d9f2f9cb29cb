#include "runtime/optimizer/adamw.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace muster {

double LearningRate::at(std::uint64_t step) const {
  if (step <= warmup_steps) {
    return peak * static_cast<double>(step) / static_cast<double>(warmup_steps);
  }
  if (decay_steps == 0) return peak;
  const double done =
      std::min(1.0, static_cast<double>(step - warmup_steps) / static_cast<double>(decay_steps));
  return peak * (0.1 + 0.9 * (1 + std::cos(std::numbers::pi * done)) / 2);
}

}  // namespace muster

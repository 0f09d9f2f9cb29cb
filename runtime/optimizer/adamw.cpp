#include "runtime/optimizer/adamw.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace muster {

void adamw_reference(const AdamwSettings& settings, const AdamwStep& step,
                     std::span<const double> gradient, std::span<double> p, std::span<double> m,
                     std::span<double> v) {
  const auto t = static_cast<double>(step.t);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double g = gradient[i] * step.gradient_scale;
    p[i] -= step.lr * step.decay * p[i];
    m[i] = settings.beta1 * m[i] + (1 - settings.beta1) * g;
    v[i] = settings.beta2 * v[i] + (1 - settings.beta2) * g * g;
    const double m_hat = m[i] / (1 - std::pow(settings.beta1, t));
    const double v_hat = v[i] / (1 - std::pow(settings.beta2, t));
    p[i] -= step.lr * m_hat / (std::sqrt(v_hat) + settings.epsilon);
  }
}

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

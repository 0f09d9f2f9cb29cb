#include "runtime/optimizer/adamw.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/memory/vector_loops.h"

namespace muster {
namespace {

struct Factors {
  float gradient, keep, beta1, one_minus_beta1, beta2, one_minus_beta2, step, inverse_root, epsilon;
};

MUSTER_VECTOR_CLONES
void update(const Factors& f, std::size_t count, const float* gradient, float* p, float* m,
            float* v) {
  const Factors c = f;
  for (std::size_t i = 0; i < count; ++i) {
    const float g = gradient[i] * c.gradient;
    m[i] = c.beta1 * m[i] + c.one_minus_beta1 * g;
    v[i] = c.beta2 * v[i] + c.one_minus_beta2 * g * g;
    p[i] = p[i] * c.keep - c.step * m[i] / (std::sqrt(v[i]) * c.inverse_root + c.epsilon);
  }
}

}  // namespace

void adamw(const AdamwSettings& settings, const AdamwStep& step, std::span<const float> gradient,
           std::span<float> p, std::span<float> m, std::span<float> v) {
  const auto t = static_cast<double>(step.t);
  const double correction1 = 1 - std::pow(settings.beta1, t);
  const double correction2 = 1 - std::pow(settings.beta2, t);
  const Factors factors{
      static_cast<float>(step.gradient_scale),   static_cast<float>(1 - step.lr * step.decay),
      static_cast<float>(settings.beta1),        static_cast<float>(1 - settings.beta1),
      static_cast<float>(settings.beta2),        static_cast<float>(1 - settings.beta2),
      static_cast<float>(step.lr / correction1), static_cast<float>(1 / std::sqrt(correction2)),
      static_cast<float>(settings.epsilon)};
  update(factors, gradient.size(), gradient.data(), p.data(), m.data(), v.data());
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

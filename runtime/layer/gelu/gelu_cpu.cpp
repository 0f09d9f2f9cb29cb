#include "runtime/layer/gelu/gelu.h"
#include "runtime/layer/vector_loops.h"

namespace muster {
namespace {

constexpr float root_two_over_pi = 0.797884560802865356f;
constexpr float cubic = 0.044715f;

inline float logistic_of_2u(float x) {
  const float u = root_two_over_pi * (x + cubic * x * x * x);
  return 1.0f / (1.0f + vector_exp(-2.0f * u));
}

MUSTER_VECTOR_CLONES
void forward_loop(const float* x, std::size_t count, float* y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = x[i] * logistic_of_2u(x[i]);
}

MUSTER_VECTOR_CLONES
void backward_loop(const float* x, const float* dy, std::size_t count, float* dx) {
  for (std::size_t i = 0; i < count; ++i) {
    const float s = logistic_of_2u(x[i]);
    const float slope = root_two_over_pi * (1.0f + 3.0f * cubic * x[i] * x[i]);
    dx[i] = dy[i] * (s + 2.0f * x[i] * s * (1.0f - s) * slope);
  }
}

}  // namespace

void gelu_forward(std::span<const float> x, std::span<float> y) {
  forward_loop(x.data(), x.size(), y.data());
}

void gelu_backward(std::span<const float> x, std::span<const float> dy, std::span<float> dx) {
  backward_loop(x.data(), dy.data(), x.size(), dx.data());
}

}  // namespace muster

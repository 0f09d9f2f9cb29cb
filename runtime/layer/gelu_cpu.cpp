#include "runtime/layer/gelu.h"
#include "runtime/layer/parallel.h"
#include "runtime/memory/bf16.h"
#include "runtime/memory/vector_loops.h"

namespace muster {
namespace {

constexpr float root_two_over_pi = 0.797884560802865356f;
constexpr float cubic = 0.044715f;

inline float logistic_of_2u(float x) {
  const float u = root_two_over_pi * (x + cubic * x * x * x);
  return 1.0f / (1.0f + vector_exp(-2.0f * u));
}

constexpr std::size_t grain = 4096;

template <class Operand>
MUSTER_VECTOR_CLONES void forward_loop(const float* x, std::size_t count, Operand* y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = to_operand<Operand>(x[i] * logistic_of_2u(x[i]));
}

template <class Operand>
MUSTER_VECTOR_CLONES void backward_loop(const float* x, const float* dy, std::size_t count,
                                        Operand* dx) {
  for (std::size_t i = 0; i < count; ++i) {
    const float s = logistic_of_2u(x[i]);
    const float slope = root_two_over_pi * (1.0f + 3.0f * cubic * x[i] * x[i]);
    dx[i] = to_operand<Operand>(dy[i] * (s + 2.0f * x[i] * s * (1.0f - s) * slope));
  }
}

}  // namespace

template <class Operand>
void gelu_forward(std::span<const float> x, std::span<Operand> y) {
  for_ranges(x.size(), grain, [&](std::size_t lo, std::size_t hi) {
    forward_loop(x.data() + lo, hi - lo, y.data() + lo);
  });
}

template <class Operand>
void gelu_backward(std::span<const float> x, std::span<const float> dy, std::span<Operand> dx) {
  for_ranges(x.size(), grain, [&](std::size_t lo, std::size_t hi) {
    backward_loop(x.data() + lo, dy.data() + lo, hi - lo, dx.data() + lo);
  });
}

template void gelu_forward(std::span<const float>, std::span<float>);
template void gelu_forward(std::span<const float>, std::span<Bf16>);
template void gelu_backward(std::span<const float>, std::span<const float>, std::span<float>);
template void gelu_backward(std::span<const float>, std::span<const float>, std::span<Bf16>);

}  // namespace muster

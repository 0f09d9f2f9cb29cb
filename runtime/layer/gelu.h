// GELU in its tanh form (Hendrycks, Gimpel 2016, equation 2).
//
//   u = sqrt(2/pi) (x + 0.044715 x^3),   u' = sqrt(2/pi) (1 + 3 * 0.044715 x^2)
//
//   forward    y = x/2 (1 + tanh u) = x s,   s = 1 / (1 + e^(-2u))
//   backward   dx = dy (s + x s (1 - s) 2 u')
//
// The logistic form has no cancellation for negative x. x, y, dy, dx hold the same number of
// elements; y and dx are written as operands of matrix products, float or Bf16; a float dx may be
// the same memory as dy.
#pragma once

#include <span>

namespace muster {

template <class Operand>
void gelu_forward(std::span<const float> x, std::span<Operand> y);
template <class Operand>
void gelu_backward(std::span<const float> x, std::span<const float> dy, std::span<Operand> dx);

}  // namespace muster

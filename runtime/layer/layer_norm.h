// Layer normalization over the last dimension (Ba, Kiros, Hinton 2016), epsilon 1e-5.
//
//   forward    mean = sum x / C,  rstd = 1 / sqrt(sum (x - mean)^2 / C + eps)
//              n = (x - mean) rstd,  y = n gamma + beta
//   backward   g = dy gamma,  dx += rstd (g - sum g / C - n sum(g n) / C)
//              dgamma += sum over rows of dy n,  dbeta += sum over rows of dy
//
// x, y, dy, dx [rows, width]; gamma, beta, dgamma, dbeta [width]; mean, rstd [rows], kept for
// backward. dx accumulates, because the residual stream's gradient is already there. Sums over the
// width are kept in 16 lanes (vector_loops.h), sums over rows run from first to last.
#pragma once

#include <cstddef>
#include <span>

namespace muster {

inline constexpr double layer_norm_epsilon = 1e-5;

struct LayerNormShape {
  std::size_t rows = 0;
  std::size_t width = 0;
};

// y is written as operands of a matrix product, float or Bf16.
template <class Operand>
void layer_norm_forward(const LayerNormShape& shape, std::span<const float> x,
                        std::span<const float> gamma, std::span<const float> beta,
                        std::span<Operand> y, std::span<float> mean, std::span<float> rstd);

void layer_norm_backward(const LayerNormShape& shape, std::span<const float> x,
                         std::span<const float> gamma, std::span<const float> mean,
                         std::span<const float> rstd, std::span<const float> dy,
                         std::span<float> dx, std::span<float> dgamma, std::span<float> dbeta);

}  // namespace muster

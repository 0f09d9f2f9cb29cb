#include <cmath>

#include "runtime/layer/layer_norm.h"
#include "runtime/layer/parallel.h"
#include "runtime/memory/bf16.h"
#include "runtime/memory/vector_loops.h"

namespace muster {
namespace {

constexpr std::size_t grain_rows = 16;
constexpr std::size_t norm_grain_columns = 64;

template <class Operand>
MUSTER_VECTOR_CLONES void normalize_row(const float* x, const float* gamma, const float* beta,
                                        std::size_t width, Operand* y, float* mean_out,
                                        float* rstd_out) {
  const float inverse = 1.0f / static_cast<float>(width);
  const float mean = lane_sum<float>(width, [=](std::size_t i) { return x[i]; }) * inverse;
  const float variance =
      lane_sum<float>(width, [=](std::size_t i) { return (x[i] - mean) * (x[i] - mean); }) *
      inverse;
  const float rstd = 1.0f / std::sqrt(variance + static_cast<float>(layer_norm_epsilon));
  for (std::size_t i = 0; i < width; ++i) {
    y[i] = to_operand<Operand>((x[i] - mean) * rstd * gamma[i] + beta[i]);
  }
  *mean_out = mean;
  *rstd_out = rstd;
}

MUSTER_VECTOR_CLONES
void backward_row(const float* x, const float* gamma, float mean, float rstd, const float* dy,
                  std::size_t width, float* dx) {
  const float inverse = 1.0f / static_cast<float>(width);
  const float mean_g =
      lane_sum<float>(width, [=](std::size_t i) { return dy[i] * gamma[i]; }) * inverse;
  const float mean_gn =
      lane_sum<float>(width,
                      [=](std::size_t i) { return dy[i] * gamma[i] * (x[i] - mean) * rstd; }) *
      inverse;
  for (std::size_t i = 0; i < width; ++i) {
    const float n = (x[i] - mean) * rstd;
    dx[i] += rstd * (dy[i] * gamma[i] - mean_g - n * mean_gn);
  }
}

// Columns [lo, hi) of dgamma and dbeta.
MUSTER_VECTOR_CLONES
void backward_columns(const LayerNormShape& shape, const float* x, const float* mean,
                      const float* rstd, const float* dy, std::size_t lo, std::size_t hi,
                      float* dgamma, float* dbeta) {
  for (std::size_t row = 0; row < shape.rows; ++row, x += shape.width, dy += shape.width) {
    const float m = mean[row], r = rstd[row];
    for (std::size_t i = lo; i < hi; ++i) {
      dgamma[i] += dy[i] * ((x[i] - m) * r);
      dbeta[i] += dy[i];
    }
  }
}

}  // namespace

template <class Operand>
void layer_norm_forward(const LayerNormShape& shape, std::span<const float> x,
                        std::span<const float> gamma, std::span<const float> beta,
                        std::span<Operand> y, std::span<float> mean, std::span<float> rstd) {
  for_ranges(shape.rows, grain_rows, [&](std::size_t lo, std::size_t hi) {
    for (std::size_t row = lo; row < hi; ++row) {
      const std::size_t at = row * shape.width;
      normalize_row(&x[at], gamma.data(), beta.data(), shape.width, &y[at], &mean[row], &rstd[row]);
    }
  });
}

template void layer_norm_forward(const LayerNormShape&, std::span<const float>,
                                 std::span<const float>, std::span<const float>, std::span<float>,
                                 std::span<float>, std::span<float>);
template void layer_norm_forward(const LayerNormShape&, std::span<const float>,
                                 std::span<const float>, std::span<const float>, std::span<Bf16>,
                                 std::span<float>, std::span<float>);

void layer_norm_backward(const LayerNormShape& shape, std::span<const float> x,
                         std::span<const float> gamma, std::span<const float> mean,
                         std::span<const float> rstd, std::span<const float> dy,
                         std::span<float> dx, std::span<float> dgamma, std::span<float> dbeta) {
  for_ranges(shape.rows, grain_rows, [&](std::size_t lo, std::size_t hi) {
    for (std::size_t row = lo; row < hi; ++row) {
      const std::size_t at = row * shape.width;
      backward_row(&x[at], gamma.data(), mean[row], rstd[row], &dy[at], shape.width, &dx[at]);
    }
  });
  for_ranges(shape.width, norm_grain_columns, [&](std::size_t lo, std::size_t hi) {
    backward_columns(shape, x.data(), mean.data(), rstd.data(), dy.data(), lo, hi, dgamma.data(),
                     dbeta.data());
  });
}

}  // namespace muster

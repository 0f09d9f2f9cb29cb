#include <cmath>

#include "runtime/layer/layer_norm.h"

namespace muster {
namespace {

struct Moments {
  double mean = 0;
  double rstd = 0;
};

Moments moments_of(std::span<const double> row) {
  const auto width = static_cast<double>(row.size());
  double mean = 0;
  for (const double value : row) mean += value / width;
  double variance = 0;
  for (const double value : row) variance += (value - mean) * (value - mean) / width;
  return {mean, 1 / std::sqrt(variance + layer_norm_epsilon)};
}

}  // namespace

void layer_norm_forward_reference(const LayerNormShape& shape, std::span<const double> x,
                                  std::span<const double> gamma, std::span<const double> beta,
                                  std::span<double> y) {
  for (std::size_t row = 0; row < shape.rows; ++row) {
    const auto values = x.subspan(row * shape.width, shape.width);
    const auto [mean, rstd] = moments_of(values);
    for (std::size_t i = 0; i < shape.width; ++i) {
      y[row * shape.width + i] = (values[i] - mean) * rstd * gamma[i] + beta[i];
    }
  }
}

void layer_norm_backward_reference(const LayerNormShape& shape, std::span<const double> x,
                                   std::span<const double> gamma, std::span<const double> dy,
                                   std::span<double> dx, std::span<double> dgamma,
                                   std::span<double> dbeta) {
  const auto width = static_cast<double>(shape.width);
  for (std::size_t row = 0; row < shape.rows; ++row) {
    const auto values = x.subspan(row * shape.width, shape.width);
    const auto gradient = dy.subspan(row * shape.width, shape.width);
    const auto [mean, rstd] = moments_of(values);
    double mean_g = 0;
    double mean_gn = 0;
    for (std::size_t i = 0; i < shape.width; ++i) {
      const double n = (values[i] - mean) * rstd;
      mean_g += gradient[i] * gamma[i] / width;
      mean_gn += gradient[i] * gamma[i] * n / width;
      dgamma[i] += gradient[i] * n;
      dbeta[i] += gradient[i];
    }
    for (std::size_t i = 0; i < shape.width; ++i) {
      const double n = (values[i] - mean) * rstd;
      dx[row * shape.width + i] += rstd * (gradient[i] * gamma[i] - mean_g - n * mean_gn);
    }
  }
}

}  // namespace muster

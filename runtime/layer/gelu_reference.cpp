#include <cmath>
#include <numbers>

#include "runtime/layer/gelu.h"

namespace muster {
namespace {

constexpr double cubic = 0.044715;
const double root_two_over_pi = std::sqrt(2 / std::numbers::pi);

double tanh_of_u(double x) {
  return std::tanh(root_two_over_pi * (x + cubic * x * x * x));
}

}  // namespace

void gelu_forward_reference(std::span<const double> x, std::span<double> y) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = 0.5 * x[i] * (1 + tanh_of_u(x[i]));
}

void gelu_backward_reference(std::span<const double> x, std::span<const double> dy,
                             std::span<double> dx) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double t = tanh_of_u(x[i]);
    const double slope = root_two_over_pi * (1 + 3 * cubic * x[i] * x[i]);
    dx[i] = dy[i] * (0.5 * (1 + t) + 0.5 * x[i] * (1 - t * t) * slope);
  }
}

}  // namespace muster

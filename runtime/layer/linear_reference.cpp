#include "runtime/layer/linear.h"

#include <algorithm>

namespace muster {

void linear_forward_reference(const LinearShape& shape, std::span<const double> x,
                              std::span<const double> w, std::span<const double> b,
                              std::span<double> y) {
  for (std::size_t row = 0; row < shape.rows; ++row) {
    for (std::size_t o = 0; o < shape.out; ++o) {
      double sum = b[o];
      for (std::size_t i = 0; i < shape.in; ++i)
        sum += x[row * shape.in + i] * w[i * shape.out + o];
      y[row * shape.out + o] = sum;
    }
  }
}

void linear_backward_reference(const LinearShape& shape, std::span<const double> x,
                               std::span<const double> w, std::span<const double> dy,
                               std::span<double> dx, std::span<double> dw, std::span<double> db) {
  if (shape.fresh) std::fill(dw.begin(), dw.end(), 0.0);
  for (std::size_t row = 0; row < shape.rows; ++row) {
    for (std::size_t i = 0; i < shape.in; ++i) dx[row * shape.in + i] = 0;
    for (std::size_t o = 0; o < shape.out; ++o) {
      const double gradient = dy[row * shape.out + o];
      db[o] += gradient;
      for (std::size_t i = 0; i < shape.in; ++i) {
        dx[row * shape.in + i] += gradient * w[i * shape.out + o];
        dw[i * shape.out + o] += gradient * x[row * shape.in + i];
      }
    }
  }
}

}  // namespace muster

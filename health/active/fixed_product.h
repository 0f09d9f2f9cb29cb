// The product of product_sum.h as one processor computes it, small enough to stay in its own
// caches. Belongs to one thread, which makes it, so that its memory is near.
#pragma once

#include <cstdint>
#include <vector>

#include "health/active/matrix_product.h"

namespace muster {

class FixedProduct {
 public:
  // Whole tiles of all kernels; the three matrices and their panels take some 2 MiB.
  static constexpr int size = 384;

  explicit FixedProduct(const MatrixKernel& kernel);

  void multiply();
  // As multiply(); then what right_product_sum(size) should be.
  std::uint64_t sum();

 private:
  MatrixProduct product_;
  std::vector<float> a_;
  std::vector<float> b_;
  std::vector<float> c_;
  std::vector<std::uint64_t> row_weights_;
  std::vector<std::uint64_t> column_weights_;
};

}  // namespace muster

// A product of fp32 matrices on one processor, in blocks that stay in its caches. Bits of the
// result depend on the kernel and the sizes alone.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "health/active/matrix_kernel.h"

namespace muster {

struct MatrixShape {
  std::size_t rows;     // of a and c
  std::size_t depth;    // columns of a, rows of b
  std::size_t columns;  // of b and c
};

class MatrixProduct {
 public:
  MatrixProduct(const MatrixKernel& kernel, const MatrixShape& shape);

  // c = a b, rows one after another.
  void multiply(const float* a, const float* b, float* c);

 private:
  void pack_left(const float* a, std::size_t first_depth, std::size_t depth);
  void pack_right(const float* b, std::size_t first_depth, std::size_t depth);
  void add_block(std::size_t depth, float* c);

  const MatrixKernel& kernel_;
  MatrixShape shape_;
  // Panels of whole tiles' rows or columns, depth outermost within each; zeros fill the last one.
  std::vector<float> left_;
  std::vector<float> right_space_;
  float* right_;  // its first multiple of 64 bytes
  std::vector<float> tile_;
};

}  // namespace muster

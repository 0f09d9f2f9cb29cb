// The inner part of a matrix product: a tile of the result, in the registers of the processor. One
// for each instruction set; the rest of the product is matrix_product.h.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace muster {

struct MatrixKernel {
  std::string_view name;
  std::size_t rows;     // of a tile
  std::size_t columns;  // a multiple of the vectors' lanes
  // tile[rows][columns] = sum over `depth` of a[k][rows] x b[k][columns]; all of them without gaps.
  // `b` begins at a multiple of 64 bytes.
  void (*multiply)(std::size_t depth, const float* a, const float* b, float* tile);
};

// Those that this processor can run, the fastest first; the last one runs everywhere.
std::span<const MatrixKernel> matrix_kernels();

}  // namespace muster

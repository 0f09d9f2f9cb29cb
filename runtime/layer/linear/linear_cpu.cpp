#include <algorithm>

#include "runtime/layer/gemm/gemm.h"
#include "runtime/layer/linear/linear.h"
#include "runtime/layer/vector_loops.h"

namespace muster {
namespace {

MUSTER_VECTOR_CLONES
void add_rows(const float* dy, std::size_t rows, std::size_t width, float* db) {
  for (std::size_t row = 0; row < rows; ++row, dy += width) {
    for (std::size_t i = 0; i < width; ++i) db[i] += dy[i];
  }
}

}  // namespace

void linear_forward(const LinearShape& shape, std::span<const float> x, std::span<const float> w,
                    std::span<const float> b, std::span<float> y) {
  for (std::size_t row = 0; row < shape.rows; ++row) {
    std::copy(b.begin(), b.begin() + shape.out, y.begin() + row * shape.out);
  }
  gemm({.m = shape.rows,
        .n = shape.out,
        .k = shape.in,
        .lda = shape.in,
        .ldb = shape.out,
        .ldc = shape.out},
       1, x.data(), w.data(), 1, y.data());
}

void linear_backward(const LinearShape& shape, std::span<const float> x, std::span<const float> w,
                     std::span<const float> dy, std::span<float> dx, std::span<float> dw,
                     std::span<float> db) {
  gemm({.m = shape.rows,
        .n = shape.in,
        .k = shape.out,
        .transpose_b = true,
        .lda = shape.out,
        .ldb = shape.out,
        .ldc = shape.in},
       1, dy.data(), w.data(), 0, dx.data());
  gemm({.m = shape.in,
        .n = shape.out,
        .k = shape.rows,
        .transpose_a = true,
        .lda = shape.in,
        .ldb = shape.out,
        .ldc = shape.out},
       1, x.data(), dy.data(), 1, dw.data());
  add_rows(dy.data(), shape.rows, shape.out, db.data());
}

}  // namespace muster

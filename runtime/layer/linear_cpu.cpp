#include "runtime/layer/gemm.h"
#include "runtime/layer/linear.h"
#include "runtime/layer/parallel.h"
#include "runtime/memory/vector_loops.h"

namespace muster {
namespace {

constexpr std::size_t linear_grain_columns = 64;

// Columns [lo, hi) of db.
template <class Operand>
MUSTER_VECTOR_CLONES void add_rows(const Operand* dy, const LinearShape& shape, std::size_t lo,
                                   std::size_t hi, float* db) {
  for (std::size_t row = 0; row < shape.rows; ++row, dy += shape.out) {
    for (std::size_t i = lo; i < hi; ++i) db[i] += to_float(dy[i]);
  }
}

}  // namespace

template <class Operand>
void linear_forward(const LinearShape& shape, std::span<const Operand> x,
                    std::span<const Operand> w, std::span<const float> b, std::span<float> y) {
  gemm({.m = shape.rows, .n = shape.out, .k = shape.in}, x.data(), w.data(), y.data(), b.data());
}

template <class Operand>
void linear_backward(const LinearShape& shape, std::span<const Operand> x,
                     std::span<const Operand> w, std::span<const Operand> dy, std::span<float> dx,
                     std::span<float> dw, std::span<float> db) {
  gemm({.m = shape.rows, .n = shape.in, .k = shape.out, .transpose_b = true}, dy.data(), w.data(),
       dx.data());
  gemm({.m = shape.in, .n = shape.out, .k = shape.rows, .transpose_a = true, .add = !shape.fresh},
       x.data(), dy.data(), dw.data());
  for_ranges(shape.out, linear_grain_columns, [&](std::size_t lo, std::size_t hi) {
    add_rows(dy.data(), shape, lo, hi, db.data());
  });
}

template void linear_forward(const LinearShape&, std::span<const float>, std::span<const float>,
                             std::span<const float>, std::span<float>);
template void linear_forward(const LinearShape&, std::span<const Bf16>, std::span<const Bf16>,
                             std::span<const float>, std::span<float>);
template void linear_backward(const LinearShape&, std::span<const float>, std::span<const float>,
                              std::span<const float>, std::span<float>, std::span<float>,
                              std::span<float>);
template void linear_backward(const LinearShape&, std::span<const Bf16>, std::span<const Bf16>,
                              std::span<const Bf16>, std::span<float>, std::span<float>,
                              std::span<float>);

}  // namespace muster

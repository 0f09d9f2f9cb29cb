// Matrix product on row-major matrices without gaps between their rows.
//
//   C = op(A) op(B) [+ bias in every row] [+ C],   op(A) is m x k, op(B) is k x n, C is m x n
//
// op(X) is X or its transpose. Operands are fp32, or bf16 with sums and C in fp32. gemm() is
// oneDNN's product on the calling thread's OpenMP threads: equal shapes and thread count give equal
// bits. It throws std::runtime_error where oneDNN has no such product (bf16 before AVX-512).
#pragma once

#include <cstddef>

#include "runtime/memory/bf16.h"

namespace muster {

struct GemmShape {
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool add = false;  // to what C holds
  // Elements from one row of A or B to the next, as stored; those of C are n.
  std::size_t lda() const { return transpose_a ? m : k; }
  std::size_t ldb() const { return transpose_b ? k : n; }
  friend bool operator==(const GemmShape&, const GemmShape&) = default;
};

// `bias`, if any, has n elements; not together with `add`.
void gemm(const GemmShape& shape, const float* a, const float* b, float* c,
          const float* bias = nullptr);
void gemm(const GemmShape& shape, const Bf16* a, const Bf16* b, float* c,
          const float* bias = nullptr);

// Whether this processor can multiply bf16.
bool has_bf16_gemm();

}  // namespace muster

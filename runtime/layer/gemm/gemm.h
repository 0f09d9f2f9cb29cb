// Matrix product on strided row-major matrices.
//
//   C = alpha op(A) op(B) + beta C,   op(A) is m x k, op(B) is k x n, C is m x n
//
// op(X) is X or its transpose; `ld*` is the distance in elements between the rows of a matrix as
// stored. gemm() is oneDNN's fp32 product on the calling thread's OpenMP threads: equal shapes,
// strides and thread count give equal bits. gemm_reference() is three loops in fp64.
#pragma once

#include <cstddef>

namespace muster {

struct GemmShape {
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  std::size_t lda = 0;
  std::size_t ldb = 0;
  std::size_t ldc = 0;
};

void gemm(const GemmShape& shape, float alpha, const float* a, const float* b, float beta,
          float* c);

void gemm_reference(const GemmShape& shape, double alpha, const double* a, const double* b,
                    double beta, double* c);

}  // namespace muster

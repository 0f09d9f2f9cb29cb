#include "runtime/layer/gemm.h"

namespace muster {

void gemm_reference(const GemmShape& shape, const double* a, const double* b, double* c) {
  for (std::size_t i = 0; i < shape.m; ++i) {
    for (std::size_t j = 0; j < shape.n; ++j) {
      double sum = 0;
      for (std::size_t p = 0; p < shape.k; ++p) {
        const double left = shape.transpose_a ? a[p * shape.lda + i] : a[i * shape.lda + p];
        const double right = shape.transpose_b ? b[j * shape.ldb + p] : b[p * shape.ldb + j];
        sum += left * right;
      }
      double& target = c[i * shape.ldc + j];
      target = sum + (shape.add ? target : 0);
    }
  }
}

}  // namespace muster

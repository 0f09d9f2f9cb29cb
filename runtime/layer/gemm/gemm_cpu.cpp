#include <dnnl.h>

#include <stdexcept>

#include "runtime/layer/gemm/gemm.h"

namespace muster {

void gemm(const GemmShape& shape, float alpha, const float* a, const float* b, float beta,
          float* c) {
  const auto size = [](std::size_t count) { return static_cast<dnnl_dim_t>(count); };
  const dnnl_status_t status = dnnl_sgemm(
      shape.transpose_a ? 'T' : 'N', shape.transpose_b ? 'T' : 'N', size(shape.m), size(shape.n),
      size(shape.k), alpha, a, size(shape.lda), b, size(shape.ldb), beta, c, size(shape.ldc));
  if (status != dnnl_success) throw std::runtime_error("oneDNN refused a matrix product");
}

}  // namespace muster

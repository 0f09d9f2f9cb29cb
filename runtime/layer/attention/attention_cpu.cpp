#include <algorithm>
#include <cmath>

#include "runtime/layer/attention/attention.h"
#include "runtime/layer/gemm/gemm.h"
#include "runtime/layer/vector_loops.h"

namespace muster {
namespace {

// Row t of `scores` becomes the softmax of its first t + 1 elements, followed by zeros.
MUSTER_VECTOR_CLONES
void causal_softmax(float* scores, std::size_t context) {
  for (std::size_t t = 0; t < context; ++t, scores += context) {
    float highest = scores[0];
    for (std::size_t s = 1; s <= t; ++s) highest = std::max(highest, scores[s]);
    for (std::size_t s = 0; s <= t; ++s) scores[s] = vector_exp(scores[s] - highest);
    const float* row = scores;
    const float sum = lane_sum<float>(t + 1, [=](std::size_t s) { return row[s]; });
    const float inverse = 1.0f / sum;
    for (std::size_t s = 0; s <= t; ++s) scores[s] *= inverse;
    for (std::size_t s = t + 1; s < context; ++s) scores[s] = 0;
  }
}

// dS from P and dP, in place of dP. Masked elements get 0 because P is 0 there.
MUSTER_VECTOR_CLONES
void softmax_backward(const float* p, float* dp, std::size_t context, float scale) {
  for (std::size_t t = 0; t < context; ++t, p += context, dp += context) {
    const float* probability = p;
    const float* gradient = dp;
    const float sum =
        lane_sum<float>(context, [=](std::size_t s) { return probability[s] * gradient[s]; });
    for (std::size_t s = 0; s < context; ++s) dp[s] = p[s] * (dp[s] - sum) * scale;
  }
}

// Where the matrices of one head of one sequence begin, in elements.
struct HeadOffsets {
  std::size_t q, k, v, out, probabilities;
};

HeadOffsets offsets_of(const AttentionShape& shape, std::size_t sequence, std::size_t head) {
  const std::size_t column = head * shape.head_width();
  const std::size_t row = sequence * shape.context;
  const std::size_t q = row * 3 * shape.width + column;
  return {q, q + shape.width, q + 2 * shape.width, row * shape.width + column,
          (sequence * shape.heads + head) * shape.context * shape.context};
}

float scale_of(const AttentionShape& shape) {
  return 1.0f / std::sqrt(static_cast<float>(shape.head_width()));
}

}  // namespace

void attention_forward(const AttentionShape& shape, std::span<const float> qkv,
                       std::span<float> out, std::span<float> probabilities) {
  const std::size_t t = shape.context, d = shape.head_width(), stride = 3 * shape.width;
  for (std::size_t sequence = 0; sequence < shape.batch; ++sequence) {
    for (std::size_t head = 0; head < shape.heads; ++head) {
      const HeadOffsets at = offsets_of(shape, sequence, head);
      float* p = &probabilities[at.probabilities];
      gemm({.m = t, .n = t, .k = d, .transpose_b = true, .lda = stride, .ldb = stride, .ldc = t},
           scale_of(shape), &qkv[at.q], &qkv[at.k], 0, p);
      causal_softmax(p, t);
      gemm({.m = t, .n = d, .k = t, .lda = t, .ldb = stride, .ldc = shape.width}, 1, p, &qkv[at.v],
           0, &out[at.out]);
    }
  }
}

void attention_backward(const AttentionShape& shape, std::span<const float> qkv,
                        std::span<const float> probabilities, std::span<const float> dout,
                        std::span<float> dqkv, std::span<float> scratch) {
  const std::size_t t = shape.context, d = shape.head_width(), stride = 3 * shape.width;
  float* ds = scratch.data();
  for (std::size_t sequence = 0; sequence < shape.batch; ++sequence) {
    for (std::size_t head = 0; head < shape.heads; ++head) {
      const HeadOffsets at = offsets_of(shape, sequence, head);
      const float* p = &probabilities[at.probabilities];
      const float* upstream = &dout[at.out];
      gemm({.m = t,
            .n = d,
            .k = t,
            .transpose_a = true,
            .lda = t,
            .ldb = shape.width,
            .ldc = stride},
           1, p, upstream, 0, &dqkv[at.v]);
      gemm({.m = t,
            .n = t,
            .k = d,
            .transpose_b = true,
            .lda = shape.width,
            .ldb = stride,
            .ldc = t},
           1, upstream, &qkv[at.v], 0, ds);
      softmax_backward(p, ds, t, scale_of(shape));
      gemm({.m = t, .n = d, .k = t, .lda = t, .ldb = stride, .ldc = stride}, 1, ds, &qkv[at.k], 0,
           &dqkv[at.q]);
      gemm({.m = t, .n = d, .k = t, .transpose_a = true, .lda = t, .ldb = stride, .ldc = stride}, 1,
           ds, &qkv[at.q], 0, &dqkv[at.k]);
    }
  }
}

}  // namespace muster

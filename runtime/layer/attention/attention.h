// Causal multi-head self-attention between the fused qkv projection and the output projection.
//
//   forward    S = Q K^T / sqrt(D),  P = softmax of row t over columns 0..t, 0 beyond,  O = P V
//   backward   dV = P^T dO,  dP = dO V^T,  dS = P (dP - row sum of P dP) / sqrt(D)
//              dQ = dS K,  dK = dS^T Q
//
// qkv, dqkv [batch, context, 3, heads, D] with D = width / heads; out, dout [batch, context, heads,
// D]; probabilities [batch, heads, context, context], kept for backward; scratch [context,
// context]. qkv is read with strides, nothing is permuted. dqkv is overwritten. The reference twin
// is fp64.
#pragma once

#include <cstddef>
#include <span>

namespace muster {

struct AttentionShape {
  std::size_t batch = 0;
  std::size_t context = 0;
  std::size_t heads = 0;
  std::size_t width = 0;  // a multiple of heads
  std::size_t head_width() const { return width / heads; }
  std::size_t probabilities() const { return batch * heads * context * context; }
};

void attention_forward(const AttentionShape& shape, std::span<const float> qkv,
                       std::span<float> out, std::span<float> probabilities);

void attention_backward(const AttentionShape& shape, std::span<const float> qkv,
                        std::span<const float> probabilities, std::span<const float> dout,
                        std::span<float> dqkv, std::span<float> scratch);

void attention_forward_reference(const AttentionShape& shape, std::span<const double> qkv,
                                 std::span<double> out, std::span<double> probabilities);

void attention_backward_reference(const AttentionShape& shape, std::span<const double> qkv,
                                  std::span<const double> probabilities,
                                  std::span<const double> dout, std::span<double> dqkv);

}  // namespace muster

// Causal multi-head self-attention between the fused qkv projection and the output projection.
//
//   forward    S = Q K^T / sqrt(D),  P = softmax of row t over columns 0..t, 0 beyond,  O = P V
//   backward   dV = P^T dO,  dP = dO V^T,  dS = P (dP - row sum of P dP) / sqrt(D)
//              dQ = dS K,  dK = dS^T Q
//
// P is never kept whole: forward stores the logarithm of each row's sum of e^S, from which backward
// makes P again, a block of rows at a time (Dao, "FlashAttention-2", 2023), and columns right of a
// block are not computed. qkv, dqkv [batch, context, 3, heads, D] with D = width / heads; out, dout
// [batch, context, heads, D]; log_sums [batch, heads, context]; scratch as attention_scratch says.
// dqkv is overwritten. What matrix products read next, out and dqkv, is float or Bf16.
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
  std::size_t rows() const { return batch * heads * context; }
  std::size_t probabilities() const { return rows() * context; }
};

// Rows of Q that are worked on together; a multiple of both tile sizes.
inline constexpr std::size_t attention_block = 32;

inline std::size_t padded_to_attention_block(std::size_t count) {
  return (count + attention_block - 1) / attention_block * attention_block;
}

// Elements of scratch that one thread needs: the matrices of a head, padded to whole blocks.
inline std::size_t attention_scratch_of_thread(const AttentionShape& shape) {
  const std::size_t context = padded_to_attention_block(shape.context);
  const std::size_t width = padded_to_attention_block(shape.head_width());
  return 7 * context * width + 5 * attention_block * width + 4 * attention_block * context + 16;
}

// The same for all threads.
std::size_t attention_scratch(const AttentionShape& shape);

template <class Operand>
void attention_forward(const AttentionShape& shape, std::span<const float> qkv,
                       std::span<Operand> out, std::span<float> log_sums, std::span<float> scratch);

template <class Operand>
void attention_backward(const AttentionShape& shape, std::span<const float> qkv,
                        std::span<const float> log_sums, std::span<const float> dout,
                        std::span<Operand> dqkv, std::span<float> scratch);

}  // namespace muster

// Token and position embeddings.
//
//   forward    x[b,t,:] = tokens_table[token[b,t],:] + positions_table[t,:]
//   backward   dtokens_table[token[b,t],:] += dx[b,t,:],   dpositions_table[t,:] += dx[b,t,:]
//
// tokens [batch, context] stand `stride` apart per sequence; x, dx [batch, context, width]; tables
// [vocabulary, width] and [context, width]. Rows are added in order of (b, t).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace muster {

using Token = std::uint32_t;

struct EmbeddingShape {
  std::size_t batch = 0;
  std::size_t context = 0;
  std::size_t width = 0;
  std::size_t stride = 0;  // tokens from one sequence to the next
};

void embedding_forward(const EmbeddingShape& shape, std::span<const Token> tokens,
                       std::span<const float> token_table, std::span<const float> position_table,
                       std::span<float> x);

void embedding_backward(const EmbeddingShape& shape, std::span<const Token> tokens,
                        std::span<const float> dx, std::span<float> dtoken_table,
                        std::span<float> dposition_table);

}  // namespace muster

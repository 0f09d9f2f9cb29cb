#include "runtime/layer/embedding.h"
#include "runtime/memory/vector_loops.h"

namespace muster {

void embedding_forward(const EmbeddingShape& shape, std::span<const Token> tokens,
                       std::span<const float> token_table, std::span<const float> position_table,
                       std::span<float> x) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t t = 0; t < shape.context; ++t) {
      const std::size_t token = tokens[b * shape.stride + t];
      add(&token_table[token * shape.width], &position_table[t * shape.width], shape.width,
          &x[(b * shape.context + t) * shape.width]);
    }
  }
}

void embedding_backward(const EmbeddingShape& shape, std::span<const Token> tokens,
                        std::span<const float> dx, std::span<float> dtoken_table,
                        std::span<float> dposition_table) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t t = 0; t < shape.context; ++t) {
      const std::size_t token = tokens[b * shape.stride + t];
      const float* row = &dx[(b * shape.context + t) * shape.width];
      add_into(row, shape.width, &dtoken_table[token * shape.width]);
      add_into(row, shape.width, &dposition_table[t * shape.width]);
    }
  }
}

}  // namespace muster

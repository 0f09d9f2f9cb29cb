#include "runtime/layer/embedding.h"

namespace muster {

void embedding_forward_reference(const EmbeddingShape& shape, std::span<const Token> tokens,
                                 std::span<const double> token_table,
                                 std::span<const double> position_table, std::span<double> x) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t t = 0; t < shape.context; ++t) {
      for (std::size_t i = 0; i < shape.width; ++i) {
        x[(b * shape.context + t) * shape.width + i] =
            token_table[tokens[b * shape.stride + t] * shape.width + i] +
            position_table[t * shape.width + i];
      }
    }
  }
}

void embedding_backward_reference(const EmbeddingShape& shape, std::span<const Token> tokens,
                                  std::span<const double> dx, std::span<double> dtoken_table,
                                  std::span<double> dposition_table) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t t = 0; t < shape.context; ++t) {
      for (std::size_t i = 0; i < shape.width; ++i) {
        const double gradient = dx[(b * shape.context + t) * shape.width + i];
        dtoken_table[tokens[b * shape.stride + t] * shape.width + i] += gradient;
        dposition_table[t * shape.width + i] += gradient;
      }
    }
  }
}

}  // namespace muster

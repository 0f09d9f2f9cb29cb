#include "runtime/layer/embedding/embedding.h"
#include "runtime/memory/vector_loops.h"

namespace muster {
namespace {

MUSTER_VECTOR_CLONES
void add_two(const float* a, const float* b, std::size_t width, float* sum) {
  for (std::size_t i = 0; i < width; ++i) sum[i] = a[i] + b[i];
}

MUSTER_VECTOR_CLONES
void add_into(const float* a, std::size_t width, float* sum) {
  for (std::size_t i = 0; i < width; ++i) sum[i] += a[i];
}

}  // namespace

void embedding_forward(const EmbeddingShape& shape, std::span<const Token> tokens,
                       std::span<const float> token_table, std::span<const float> position_table,
                       std::span<float> x) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t t = 0; t < shape.context; ++t) {
      const std::size_t token = tokens[b * shape.stride + t];
      add_two(&token_table[token * shape.width], &position_table[t * shape.width], shape.width,
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

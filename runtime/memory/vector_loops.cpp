#include "runtime/memory/vector_loops.h"

namespace muster {

MUSTER_VECTOR_CLONES
void add(const float* a, const float* b, std::size_t count, float* sum) {
  for (std::size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

MUSTER_VECTOR_CLONES
void add_into(const float* a, std::size_t count, float* sum) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += a[i];
}

}  // namespace muster

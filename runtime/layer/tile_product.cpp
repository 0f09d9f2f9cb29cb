#include "runtime/layer/tile_product.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "runtime/memory/vector_loops.h"

namespace muster {
namespace {

constexpr std::size_t lanes = 16;
using Lanes = float __attribute__((vector_size(lanes * sizeof(float))));
static_assert(tile_columns == 2 * lanes);

// By reference: a vector as a return value depends on the instruction set of the caller.
[[gnu::always_inline]] inline void load(const float* from, Lanes& value) {
  std::memcpy(&value, from, sizeof value);
}

template <bool add>
[[gnu::always_inline]] inline void store(Lanes& value, float* to) {
  if (add) {
    Lanes before;
    load(to, before);
    value += before;
  }
  std::memcpy(to, &value, sizeof value);
}

// One tile of C stays in registers while k runs.
template <bool add>
[[gnu::always_inline]] inline void tile(const TileProduct& shape, const float* a, const float* b,
                                        float* c) {
  Lanes left[tile_rows];
  Lanes right[tile_rows];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < tile_rows; ++i) left[i] = right[i] = Lanes{};
  for (std::size_t p = 0; p < shape.k; ++p, b += shape.ldb, a += shape.a_column) {
    Lanes b_left, b_right;
    load(b, b_left);
    load(b + lanes, b_right);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < tile_rows; ++i) {
      const float factor = a[i * shape.a_row];
      left[i] += factor * b_left;
      right[i] += factor * b_right;
    }
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < tile_rows; ++i) {
    float* row = c + i * shape.ldc;
    store<add>(left[i], row);
    store<add>(right[i], row + lanes);
  }
}

template <bool add>
MUSTER_VECTOR_CLONES void product(const TileProduct& shape, const float* a, const float* b,
                                  float* c) {
  for (std::size_t j = 0; j < shape.n; j += tile_columns) {
    for (std::size_t i = 0; i < shape.m; i += tile_rows) {
      tile<add>(shape, a + i * shape.a_row, b + j, c + i * shape.ldc + j);
    }
  }
}

}  // namespace

void tile_product(const TileProduct& shape, const float* a, const float* b, float* c) {
  shape.add ? product<true>(shape, a, b, c) : product<false>(shape, a, b, c);
}

// In strips of few rows, whose cache lines then stay until all of their columns were used.
template <class Unit>
void transpose(const Unit* from, std::size_t rows, std::size_t columns, std::size_t from_row,
               Unit* to, std::size_t to_row) {
  for (std::size_t first = 0; first < rows; first += lanes) {
    const std::size_t last = std::min(first + lanes, rows);
    for (std::size_t j = 0; j < columns; ++j) {
      for (std::size_t i = first; i < last; ++i) to[j * to_row + i] = from[i * from_row + j];
    }
  }
}

template void transpose(const float*, std::size_t, std::size_t, std::size_t, float*, std::size_t);
template void transpose(const std::uint32_t*, std::size_t, std::size_t, std::size_t, std::uint32_t*,
                        std::size_t);

}  // namespace muster

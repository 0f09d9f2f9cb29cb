#include "runtime/layer/tile_product.h"

#include <immintrin.h>
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "runtime/memory/bf16.h"
#include "runtime/memory/vector_loops.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define MUSTER_HAS_PAIRS 1
#define MUSTER_PAIRS __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#endif

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

constexpr std::size_t register_lanes = 16;
static_assert(tile_columns == 2 * register_lanes);

MUSTER_PAIRS inline __m512bh operand(__m512i units) {
  return reinterpret_cast<__m512bh>(units);
}

// One tile of C stays in registers while k runs.
template <bool add>
MUSTER_PAIRS inline void tile(const TileProduct& shape, const Bf16Pair* a, const Bf16Pair* b,
                              float* c) {
  __m512 left[tile_rows], right[tile_rows];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < tile_rows; ++i) {
    left[i] = add ? _mm512_loadu_ps(c + i * shape.ldc) : _mm512_setzero_ps();
    right[i] = add ? _mm512_loadu_ps(c + i * shape.ldc + register_lanes) : _mm512_setzero_ps();
  }
  for (std::size_t p = 0; p < shape.k; ++p, b += shape.ldb, a += shape.a_column) {
    const __m512bh b_left = operand(_mm512_loadu_si512(b));
    const __m512bh b_right = operand(_mm512_loadu_si512(b + register_lanes));
#pragma GCC unroll 8
    for (std::size_t i = 0; i < tile_rows; ++i) {
      const __m512bh factor = operand(_mm512_set1_epi32(static_cast<int>(a[i * shape.a_row])));
      left[i] = _mm512_dpbf16_ps(left[i], factor, b_left);
      right[i] = _mm512_dpbf16_ps(right[i], factor, b_right);
    }
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < tile_rows; ++i) {
    _mm512_storeu_ps(c + i * shape.ldc, left[i]);
    _mm512_storeu_ps(c + i * shape.ldc + register_lanes, right[i]);
  }
}

template <bool add>
MUSTER_PAIRS void product(const TileProduct& shape, const Bf16Pair* a, const Bf16Pair* b,
                          float* c) {
  for (std::size_t j = 0; j < shape.n; j += tile_columns) {
    for (std::size_t i = 0; i < shape.m; i += tile_rows) {
      tile<add>(shape, a + i * shape.a_row, b + j, c + i * shape.ldc + j);
    }
  }
}

Bf16Pair pair(float low, float high) {
  return to_bf16(low).bits | static_cast<Bf16Pair>(to_bf16(high).bits) << 16;
}

// 16 floats as bf16, each in the lower half of a unit.
MUSTER_PAIRS inline __m512i rounded(const float* from, __m512 factor) {
  const __m256bh halves = _mm512_cvtneps_pbh(_mm512_mul_ps(_mm512_loadu_ps(from), factor));
  return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(halves));
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

#ifdef MUSTER_HAS_PAIRS

bool has_pair_product() {
  static const bool has = __builtin_cpu_supports("avx512bf16") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return has;
}

void tile_product(const TileProduct& shape, const Bf16Pair* a, const Bf16Pair* b, float* c) {
  shape.add ? product<true>(shape, a, b, c) : product<false>(shape, a, b, c);
}

MUSTER_PAIRS
void pair_columns(const float* from, std::size_t from_row, std::size_t rows, std::size_t columns,
                  float factor, Bf16Pair* to, std::size_t to_row) {
  const __m512 factors = _mm512_set1_ps(factor);
  for (std::size_t i = 0; i < rows; ++i, from += from_row, to += to_row) {
    std::size_t j = 0;
    for (; j + 2 * register_lanes <= columns; j += 2 * register_lanes) {
      const __m512 low = _mm512_mul_ps(_mm512_loadu_ps(from + j), factors);
      const __m512 high = _mm512_mul_ps(_mm512_loadu_ps(from + j + register_lanes), factors);
      _mm512_storeu_si512(to + j / 2, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
    }
    for (; j < columns; j += 2) {
      to[j / 2] = pair(factor * from[j], j + 1 < columns ? factor * from[j + 1] : 0.0f);
    }
  }
}

MUSTER_PAIRS
void pair_rows(const float* from, std::size_t from_row, std::size_t rows, std::size_t columns,
               float factor, Bf16Pair* to, std::size_t to_row) {
  const __m512 factors = _mm512_set1_ps(factor);
  for (std::size_t i = 0; i < rows; i += 2, from += 2 * from_row, to += to_row) {
    const bool has_two = i + 1 < rows;
    std::size_t j = 0;
    for (; has_two && j + register_lanes <= columns; j += register_lanes) {
      const __m512i high = _mm512_slli_epi32(rounded(from + from_row + j, factors), 16);
      _mm512_storeu_si512(to + j, _mm512_or_si512(rounded(from + j, factors), high));
    }
    for (; j < columns; ++j) {
      to[j] = pair(factor * from[j], has_two ? factor * from[from_row + j] : 0.0f);
    }
  }
}

#else

bool has_pair_product() {
  return false;
}
void tile_product(const TileProduct&, const Bf16Pair*, const Bf16Pair*, float*) {}
void pair_columns(const float*, std::size_t, std::size_t, std::size_t, float, Bf16Pair*,
                  std::size_t) {}
void pair_rows(const float*, std::size_t, std::size_t, std::size_t, float, Bf16Pair*, std::size_t) {
}

#endif

}  // namespace muster

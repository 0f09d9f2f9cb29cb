#include "health/active/matrix_kernel.h"

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace muster {

namespace {

constexpr std::size_t portable_rows = 4;
constexpr std::size_t portable_columns = 16;

void multiply_portable(std::size_t depth, const float* a, const float* b, float* tile) {
  float sums[portable_rows][portable_columns] = {};
  for (std::size_t k = 0; k < depth; ++k) {
    for (std::size_t row = 0; row < portable_rows; ++row) {
      for (std::size_t column = 0; column < portable_columns; ++column) {
        sums[row][column] += a[k * portable_rows + row] * b[k * portable_columns + column];
      }
    }
  }
  for (std::size_t row = 0; row < portable_rows; ++row) {
    for (std::size_t column = 0; column < portable_columns; ++column) {
      tile[row * portable_columns + column] = sums[row][column];
    }
  }
}

constexpr MatrixKernel portable{"portable", portable_rows, portable_columns, multiply_portable};

#if defined(__x86_64__)

// As many sums as leave registers for a row of b and one element of a: enough multiplications are
// under way to hide that each takes four or five cycles.
constexpr std::size_t wide_rows = 12;
constexpr std::size_t wide_lanes = 16;
constexpr std::size_t wide_columns = 2 * wide_lanes;

__attribute__((target("avx512f"))) void multiply_avx512(std::size_t depth, const float* a,
                                                        const float* b, float* tile) {
  __m512 left[wide_rows];
  __m512 right[wide_rows];
#pragma GCC unroll 12
  for (std::size_t row = 0; row < wide_rows; ++row) {
    left[row] = _mm512_setzero_ps();
    right[row] = _mm512_setzero_ps();
  }
  for (std::size_t k = 0; k < depth; ++k) {
    const __m512 b_left = _mm512_load_ps(b + k * wide_columns);
    const __m512 b_right = _mm512_load_ps(b + k * wide_columns + wide_lanes);
#pragma GCC unroll 12
    for (std::size_t row = 0; row < wide_rows; ++row) {
      const __m512 element = _mm512_set1_ps(a[k * wide_rows + row]);
      left[row] = _mm512_fmadd_ps(element, b_left, left[row]);
      right[row] = _mm512_fmadd_ps(element, b_right, right[row]);
    }
  }
#pragma GCC unroll 12
  for (std::size_t row = 0; row < wide_rows; ++row) {
    _mm512_storeu_ps(tile + row * wide_columns, left[row]);
    _mm512_storeu_ps(tile + row * wide_columns + wide_lanes, right[row]);
  }
}

constexpr std::size_t narrow_rows = 6;
constexpr std::size_t narrow_lanes = 8;
constexpr std::size_t narrow_columns = 2 * narrow_lanes;

__attribute__((target("avx2,fma"))) void multiply_avx2(std::size_t depth, const float* a,
                                                       const float* b, float* tile) {
  __m256 left[narrow_rows];
  __m256 right[narrow_rows];
#pragma GCC unroll 6
  for (std::size_t row = 0; row < narrow_rows; ++row) {
    left[row] = _mm256_setzero_ps();
    right[row] = _mm256_setzero_ps();
  }
  for (std::size_t k = 0; k < depth; ++k) {
    const __m256 b_left = _mm256_load_ps(b + k * narrow_columns);
    const __m256 b_right = _mm256_load_ps(b + k * narrow_columns + narrow_lanes);
#pragma GCC unroll 6
    for (std::size_t row = 0; row < narrow_rows; ++row) {
      const __m256 element = _mm256_set1_ps(a[k * narrow_rows + row]);
      left[row] = _mm256_fmadd_ps(element, b_left, left[row]);
      right[row] = _mm256_fmadd_ps(element, b_right, right[row]);
    }
  }
#pragma GCC unroll 6
  for (std::size_t row = 0; row < narrow_rows; ++row) {
    _mm256_storeu_ps(tile + row * narrow_columns, left[row]);
    _mm256_storeu_ps(tile + row * narrow_columns + narrow_lanes, right[row]);
  }
}

constexpr std::array table{MatrixKernel{"avx512", wide_rows, wide_columns, multiply_avx512},
                           MatrixKernel{"avx2", narrow_rows, narrow_columns, multiply_avx2},
                           portable};

// How many of the first ones this processor lacks.
std::size_t missing_kernels() {
  if (__builtin_cpu_supports("avx512f")) return 0;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 1 : 2;
}

#else

constexpr std::array table{portable};

std::size_t missing_kernels() {
  return 0;
}

#endif

}  // namespace

std::span<const MatrixKernel> matrix_kernels() {
  return std::span<const MatrixKernel>(table).subspan(missing_kernels());
}

}  // namespace muster

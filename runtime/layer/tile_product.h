// The small matrix products inside attention, where a library call costs as much as the product.
//
//   C = A B   or   C += A B,   A is m x k, B is k x n, C is m x n, in fp32
//
// A is read with any two strides, so that a transposed A costs nothing; rows of B and C are
// contiguous. m is a multiple of tile_rows and n of tile_columns: callers pad with zeros. Sums run
// over k in order. Single-threaded.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster {

inline constexpr std::size_t tile_rows = 8;
inline constexpr std::size_t tile_columns = 32;

struct TileProduct {
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
  std::size_t a_row = 0;     // elements from one row of A to the next
  std::size_t a_column = 1;  // and from one column to the next
  std::size_t ldb = 0;
  std::size_t ldc = 0;
  bool add = false;  // to what C holds
};

void tile_product(const TileProduct& shape, const float* a, const float* b, float* c);

// to[j, i] = from[i, j] for i < rows, j < columns.
template <class Unit>  // of four bytes
void transpose(const Unit* from, std::size_t rows, std::size_t columns, std::size_t from_row,
               Unit* to, std::size_t to_row);

// The products of tile_product.h with bf16 operands, where the CPU adds the products of two pairs
// of bf16 to an fp32 in one instruction.
//
//   C = A B   or   C += A B,   A is m x k, B is k x n, C is m x n, in fp32
//
// Operands are read in units of two elements that follow each other along k, the first in the
// lower half: `k`, the strides of A and the rows of B count units. The loops below make such
// operands from floats.

using Bf16Pair = std::uint32_t;

// Nothing below may be called where this is false.
bool has_pair_product();

void tile_product(const TileProduct& shape, const Bf16Pair* a, const Bf16Pair* b, float* c);

// to[i, j] = factor from[i, 2j], factor from[i, 2j + 1]; beyond an odd number of columns, zero.
void pair_columns(const float* from, std::size_t from_row, std::size_t rows, std::size_t columns,
                  float factor, Bf16Pair* to, std::size_t to_row);

// to[i, j] = factor from[2i, j], factor from[2i + 1, j]; beyond an odd number of rows, zero.
void pair_rows(const float* from, std::size_t from_row, std::size_t rows, std::size_t columns,
               float factor, Bf16Pair* to, std::size_t to_row);

}  // namespace muster

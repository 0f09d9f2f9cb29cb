// The products of tile_product.h with bf16 operands, where the CPU adds the products of two pairs
// of bf16 to an fp32 in one instruction.
//
//   C = A B   or   C += A B,   A is m x k, B is k x n, C is m x n, in fp32
//
// Operands are read in units of two elements that follow each other along k, the first in the
// lower half: `k`, the strides of A and the rows of B count units. The loops below make such
// operands from floats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/layer/tile_product.h"

namespace muster {

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

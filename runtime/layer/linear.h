// Linear layer.
//
//   forward    y = x w + b
//   backward   dx = dy w^T,   dw += x^T dy,   db += sum over rows of dy
//
// x, dx [rows, in]; w, dw [in, out]; b, db [out]; y, dy [rows, out]; row-major. dw and db
// accumulate, so that the micro-batches of a leaf add up (dw not when `fresh`); sums over rows run
// from the first row to the last. What matrix products read is float or Bf16, what they write is
// float.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/memory/bf16.h"

namespace muster {

struct LinearShape {
  std::size_t rows = 0;
  std::size_t in = 0;
  std::size_t out = 0;
  bool fresh = false;  // dw is overwritten, for the first micro-batch
};

template <class Operand>
void linear_forward(const LinearShape& shape, std::span<const Operand> x,
                    std::span<const Operand> w, std::span<const float> b, std::span<float> y);

template <class Operand>
void linear_backward(const LinearShape& shape, std::span<const Operand> x,
                     std::span<const Operand> w, std::span<const Operand> dy, std::span<float> dx,
                     std::span<float> dw, std::span<float> db);

}  // namespace muster

#include "health/active/matrix_product.h"

#include <algorithm>
#include <cstdint>

namespace muster {

namespace {

// A panel of b of this depth fits the smallest first cache that there is (32 KiB), beside one of a.
constexpr std::size_t block_depth = 192;
constexpr std::size_t line_floats = 16;

std::size_t tiles_over(std::size_t count, std::size_t tile) {
  return (count + tile - 1) / tile;
}

float* aligned(std::vector<float>& space) {
  const auto at = reinterpret_cast<std::uintptr_t>(space.data());
  const std::uintptr_t skip = (64 - at % 64) % 64;
  return space.data() + skip / sizeof(float);
}

}  // namespace

MatrixProduct::MatrixProduct(const MatrixKernel& kernel, const MatrixShape& shape)
    : kernel_(kernel),
      shape_(shape),
      left_(tiles_over(shape.rows, kernel.rows) * kernel.rows * block_depth),
      right_space_(tiles_over(shape.columns, kernel.columns) * kernel.columns * block_depth +
                   line_floats),
      right_(aligned(right_space_)),
      tile_(kernel.rows * kernel.columns) {}

void MatrixProduct::multiply(const float* a, const float* b, float* c) {
  std::fill_n(c, shape_.rows * shape_.columns, 0.0f);
  for (std::size_t first = 0; first < shape_.depth; first += block_depth) {
    const std::size_t depth = std::min(block_depth, shape_.depth - first);
    pack_left(a, first, depth);
    pack_right(b, first, depth);
    add_block(depth, c);
  }
}

void MatrixProduct::pack_left(const float* a, std::size_t first_depth, std::size_t depth) {
  float* to = left_.data();
  for (std::size_t panel = 0; panel < shape_.rows; panel += kernel_.rows) {
    for (std::size_t k = 0; k < depth; ++k) {
      for (std::size_t row = panel; row < panel + kernel_.rows; ++row) {
        *to++ = row < shape_.rows ? a[row * shape_.depth + first_depth + k] : 0.0f;
      }
    }
  }
}

void MatrixProduct::pack_right(const float* b, std::size_t first_depth, std::size_t depth) {
  float* to = right_;
  for (std::size_t panel = 0; panel < shape_.columns; panel += kernel_.columns) {
    const std::size_t there = std::min(kernel_.columns, shape_.columns - panel);
    for (std::size_t k = 0; k < depth; ++k) {
      std::copy_n(b + (first_depth + k) * shape_.columns + panel, there, to);
      std::fill_n(to + there, kernel_.columns - there, 0.0f);
      to += kernel_.columns;
    }
  }
}

void MatrixProduct::add_block(std::size_t depth, float* c) {
  for (std::size_t column = 0; column < shape_.columns; column += kernel_.columns) {
    const float* right = right_ + column * depth;
    const std::size_t width = std::min(kernel_.columns, shape_.columns - column);
    for (std::size_t row = 0; row < shape_.rows; row += kernel_.rows) {
      kernel_.multiply(depth, left_.data() + row * depth, right, tile_.data());
      const std::size_t height = std::min(kernel_.rows, shape_.rows - row);
      for (std::size_t i = 0; i < height; ++i) {
        float* to = c + (row + i) * shape_.columns + column;
        const float* from = tile_.data() + i * kernel_.columns;
        for (std::size_t j = 0; j < width; ++j) to[j] += from[j];
      }
    }
  }
}

}  // namespace muster

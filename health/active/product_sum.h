// A matrix product whose every bit is known beforehand, and a sum over all its elements that two
// ways lead to. Elements of both factors are whole numbers of at most 44 in units of 1/64: so all
// partial sums of 8192 products are whole numbers below 2^24 in units of 1/4096, which fp32 holds
// exactly, and in whichever order, by whichever unit they are added, the product is the same. bf16
// and TF32 hold the factors exactly.
//
// The sum weighs element (row, column) with two odd numbers and is taken modulo 2^64: one wrong
// element always changes it. From the factors alone it comes in n^2 steps, as (u A)(B v).
//
// Standard library only, C++17: GPU programs use it. Pure.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#ifdef __CUDACC__
#define MUSTER_ON_GPU __host__ __device__
#else
#define MUSTER_ON_GPU
#endif

namespace muster {

inline constexpr int product_size = 8192;
inline constexpr float factor_unit = 1.0f / 64;
inline constexpr float product_unit = factor_unit * factor_unit;
inline constexpr int factor_most = 44;

// SplitMix64's last step.
MUSTER_ON_GPU inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

MUSTER_ON_GPU inline std::uint64_t row_weight(std::uint64_t row) {
  return mixed(row) | 1;
}
MUSTER_ON_GPU inline std::uint64_t column_weight(std::uint64_t column) {
  return mixed(column + (1ull << 32)) | 1;
}

// In units of 1/64; element `at` of the first (which = 0) or the second factor (1), columns one
// after another.
MUSTER_ON_GPU inline int factor_element(int which, std::uint64_t at) {
  const std::uint64_t random = mixed(at + (static_cast<std::uint64_t>(which + 1) << 40));
  return static_cast<int>(random % (2 * factor_most + 1)) - factor_most;
}

// What an element of the product adds, but for its weights. One that is no whole number of units
// adds its bits, which no right one does.
MUSTER_ON_GPU inline std::uint64_t product_term(float element) {
  const float units = element / product_unit;  // a power of two: exact
  if (units >= -16777216.0f && units <= 16777216.0f) {
    const auto whole = static_cast<std::int64_t>(units);
    if (static_cast<float>(whole) == units) return static_cast<std::uint64_t>(whole);
  }
  std::uint32_t bits = 0;
  std::memcpy(&bits, &element, sizeof bits);
  return mixed(bits + (3ull << 60));
}

// Of the right product of size x size.
inline std::uint64_t right_product_sum(int size) {
  const auto count = static_cast<std::uint64_t>(size);
  std::vector<std::uint64_t> left(count);   // u A
  std::vector<std::uint64_t> right(count);  // B v
  for (std::uint64_t column = 0; column < count; ++column) {
    for (std::uint64_t row = 0; row < count; ++row) {
      const std::uint64_t at = column * count + row;
      left[column] += row_weight(row) *
                      static_cast<std::uint64_t>(static_cast<std::int64_t>(factor_element(0, at)));
      right[row] += column_weight(column) *
                    static_cast<std::uint64_t>(static_cast<std::int64_t>(factor_element(1, at)));
    }
  }
  std::uint64_t sum = 0;
  for (std::uint64_t k = 0; k < count; ++k) sum += left[k] * right[k];
  return sum;
}

}  // namespace muster

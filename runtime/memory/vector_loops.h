// Building blocks of the vectorized loops: run-time choice of the instruction set, sums with a
// fixed order, exp.
//
// MUSTER_VECTOR_CLONES in front of a function makes the compiler build it for AVX-512, AVX2 with
// FMA and the base instruction set, and the loader choose. Results may differ between instruction
// sets in the last bit, never between two runs on one machine. The clones are left out under the
// sanitizers, whose run time is not ready when the loader chooses.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MUSTER_VECTOR_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MUSTER_VECTOR_CLONES
#endif

namespace muster {

// Sums are kept in this many lanes, element i in lane i mod 16, then joined in a fixed tree.
inline constexpr std::size_t sum_lanes = 16;

template <class Number>
inline Number join_lanes(const Number (&lanes)[sum_lanes]) {
  Number joined[sum_lanes];
  for (std::size_t i = 0; i < sum_lanes; ++i) joined[i] = lanes[i];
  for (std::size_t half = sum_lanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) joined[i] += joined[i + half];
  }
  return joined[0];
}

// Sum over i in [0, count) of term(i), in the order above.
template <class Number, class Term>
inline Number lane_sum(std::size_t count, Term term) {
  Number lanes[sum_lanes] = {};
  const std::size_t whole = count / sum_lanes * sum_lanes;
  for (std::size_t i = 0; i < whole; i += sum_lanes) {
    for (std::size_t lane = 0; lane < sum_lanes; ++lane) lanes[lane] += term(i + lane);
  }
  for (std::size_t lane = 0; lane < count - whole; ++lane) lanes[lane] += term(whole + lane);
  return join_lanes(lanes);
}

// e^x for x in [-87, 88], clamped outside; relative error below 2e-7. x = n ln 2 + r with |r| <= ln
// 2 / 2, e^r by its Taylor series to r^7 (remainder below 6e-9), 2^n by the exponent bits. ln 2 is
// split in two so that n ln 2 is exact enough; adding and taking away 1.5 x 2^23 rounds to the
// nearest whole number.
inline float vector_exp(float x) {
  constexpr float log2_e = 1.44269504088896341f;
  constexpr float ln2_high = 0.693359375f;
  constexpr float ln2_low = -2.12194440054690583e-4f;
  constexpr float round_shift = 12582912.0f;
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float n = (x * log2_e + round_shift) - round_shift;
  const float r = (x - n * ln2_high) - n * ln2_low;
  float series = 1.0f / 5040.0f;
  series = series * r + 1.0f / 720.0f;
  series = series * r + 1.0f / 120.0f;
  series = series * r + 1.0f / 24.0f;
  series = series * r + 1.0f / 6.0f;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  return series * std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
}

// Sums of two rows of floats, element by element.
void add(const float* a, const float* b, std::size_t count, float* sum);
void add_into(const float* a, std::size_t count, float* sum);  // sum += a

}  // namespace muster

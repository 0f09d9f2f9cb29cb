// bfloat16: the upper half of an IEEE single.
#pragma once

#include <bit>
#include <cstdint>

namespace muster {

struct Bf16 {
  std::uint16_t bits = 0;
};

// To the nearest, ties to even. NaN stays NaN.
inline Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return {static_cast<std::uint16_t>(value != value ? (bits >> 16) | 0x40 : rounded)};
}

inline float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
inline float to_float(float value) {
  return value;
}

// What a matrix product reads: float or Bf16.
template <class Operand>
Operand to_operand(float value);
template <>
inline float to_operand<float>(float value) {
  return value;
}
template <>
inline Bf16 to_operand<Bf16>(float value) {
  return to_bf16(value);
}

// Flips the highest bit of the exponent, as a computer that errs: a usual value becomes an absurd
// one. For tests of those who watch.
inline void flip_top_bit(float& value) {
  value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ (1u << 30));
}

}  // namespace muster

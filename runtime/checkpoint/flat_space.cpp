#include "runtime/checkpoint/flat_space.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/memory/vector_loops.h"

namespace muster {
namespace {

constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ull;
constexpr std::uint32_t exponent_mask = 0x7F800000u;
constexpr std::uint32_t magnitude_mask = 0x7FFFFFFFu;
// Each loop goes over values that are still in the first cache.
constexpr std::size_t block_elements = 4096;

inline std::uint64_t splitmix64(std::uint64_t state) {
  std::uint64_t mixed = state + golden;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
  return mixed ^ (mixed >> 31);
}

// All ones when the value is finite, else 0.
inline std::uint32_t finite_mask(std::uint32_t bits) {
  return (bits & exponent_mask) != exponent_mask ? ~0u : 0u;
}

MUSTER_VECTOR_CLONES
std::uint64_t hash_of(std::uint64_t plane, std::uint64_t first, const float* values,
                      std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t value = std::bit_cast<std::uint32_t>(values[i]) | plane << 32;
    sum += splitmix64(value ^ (first + i) * golden);
  }
  return sum;
}

MUSTER_VECTOR_CLONES
std::uint32_t nonfinite_of(const float* values, std::size_t count) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += finite_mask(std::bit_cast<std::uint32_t>(values[i])) + 1;
  }
  return sum;
}

// Magnitudes stand in the order of their bits, which leave the sign of a whole number free: the
// compiler knows how to take the maximum of many of those at once.
MUSTER_VECTOR_CLONES
std::int32_t absmax_bits_of(const float* values, std::size_t count) {
  std::int32_t highest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const auto magnitude = static_cast<std::int32_t>(bits & magnitude_mask & finite_mask(bits));
    highest = magnitude > highest ? magnitude : highest;
  }
  return highest;
}

MUSTER_VECTOR_CLONES
double squares_of(const float* values, std::size_t count) {
  return lane_sum<double>(count, [values](std::size_t i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const double value = std::bit_cast<float>(bits & finite_mask(bits));
    return value * value;
  });
}

}  // namespace

std::uint64_t FlatParameter::size() const {
  std::uint64_t product = 1;
  for (const std::uint64_t extent : shape) product *= extent;
  return product;
}

std::size_t FlatSpace::add(std::string name, std::vector<std::uint64_t> shape, bool decay) {
  params.push_back({std::move(name), numel, std::move(shape), decay});
  const std::uint64_t end = numel + params.back().size();
  numel = (end + align - 1) / align * align;
  return params.size() - 1;
}

ElementRange owned_elements(const FlatSpace& space, std::size_t rank, std::size_t ranks) {
  const std::uint64_t blocks = space.numel / space.align;
  return {rank * blocks / ranks * space.align, (rank + 1) * blocks / ranks * space.align};
}

std::uint64_t fnv1a64(std::string_view text, std::uint64_t basis) {
  std::uint64_t hash = basis;
  for (const char letter : text) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 1099511628211ull;
  }
  return hash;
}

std::uint64_t layout_hash(const FlatSpace& space) {
  std::string text =
      "numel " + std::to_string(space.numel) + " align " + std::to_string(space.align);
  for (const char* plane : flat_plane_names) text += std::string("\nplane ") + plane + " F32";
  for (const FlatParameter& param : space.params) {
    text += "\nparam " + param.name + " at " + std::to_string(param.offset) + " shape";
    for (const std::uint64_t extent : param.shape) text += " " + std::to_string(extent);
    if (param.decay) text += " decay";
  }
  return fnv1a64(text);
}

std::uint64_t plane_hash(std::uint64_t plane, std::uint64_t first, std::span<const float> values) {
  return hash_of(plane, first, values.data(), values.size());
}

void TensorStatsSum::add(std::uint64_t plane, std::uint64_t first, std::span<const float> values) {
  for (std::size_t at = 0; at < values.size(); at += block_elements) {
    const float* block = values.data() + at;
    const std::size_t count = std::min(block_elements, values.size() - at);
    nonfinite_ += nonfinite_of(block, count);
    absmax_bits_ = std::max(absmax_bits_, absmax_bits_of(block, count));
    squares_ += squares_of(block, count);
    hash_ += hash_of(plane, first + at, block, count);
  }
}

TensorStats TensorStatsSum::vitals() const {
  return {nonfinite_, std::bit_cast<float>(absmax_bits_), std::sqrt(squares_), hash_};
}

TensorStats tensor_stats(std::uint64_t plane, std::uint64_t first, std::span<const float> values) {
  TensorStatsSum sum;
  sum.add(plane, first, values);
  return sum.vitals();
}

}  // namespace muster

#include "runtime/checkpoint/vitals.h"

#include <bit>
#include <cmath>

namespace muster {
namespace {

std::uint64_t splitmix64(std::uint64_t state) {
  std::uint64_t mixed = state + 0x9E3779B97F4A7C15ull;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
  return mixed ^ (mixed >> 31);
}

}  // namespace

std::uint64_t plane_hash(std::uint64_t plane, std::uint64_t first, std::span<const float> values) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t value = std::bit_cast<std::uint32_t>(values[i]) | plane << 32;
    sum += splitmix64(value ^ (first + i) * 0x9E3779B97F4A7C15ull);
  }
  return sum;
}

PlaneVitals plane_vitals(std::uint64_t plane, std::uint64_t first, std::span<const float> values) {
  PlaneVitals vitals;
  double squares = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++vitals.nonfinite;
      continue;
    }
    vitals.absmax = std::fmax(vitals.absmax, std::fabs(value));
    squares += double{value} * double{value};
  }
  vitals.l2 = std::sqrt(squares);
  vitals.hash = plane_hash(plane, first, values);
  return vitals;
}

}  // namespace muster

#include "runtime/memory/philox.h"

#include <cmath>
#include <numbers>

namespace muster {
namespace {

// Multipliers and Weyl increments of the paper, table 2.
constexpr std::uint64_t multiplier_0 = 0xD2511F53;
constexpr std::uint64_t multiplier_1 = 0xCD9E8D57;
constexpr std::uint32_t weyl_0 = 0x9E3779B9;
constexpr std::uint32_t weyl_1 = 0xBB67AE85;

PhiloxCounter philox_round(const PhiloxCounter& counter, const PhiloxKey& key) {
  const std::uint64_t product_0 = multiplier_0 * counter[0];
  const std::uint64_t product_1 = multiplier_1 * counter[2];
  return {static_cast<std::uint32_t>(product_1 >> 32) ^ counter[1] ^ key[0],
          static_cast<std::uint32_t>(product_1),
          static_cast<std::uint32_t>(product_0 >> 32) ^ counter[3] ^ key[1],
          static_cast<std::uint32_t>(product_0)};
}

double uniform_53(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace

PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    counter = philox_round(counter, key);
    key[0] += weyl_0;
    key[1] += weyl_1;
  }
  return counter;
}

PhiloxCounter random_block(std::uint64_t seed, RandomPurpose purpose, std::uint32_t stream,
                           std::uint64_t index) {
  return philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                     stream, static_cast<std::uint32_t>(purpose)},
                    {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

std::array<double, 2> normal_pair(const PhiloxCounter& words) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform_53(words[0], words[1])));
  const double angle = 2.0 * std::numbers::pi * uniform_53(words[2], words[3]);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace muster

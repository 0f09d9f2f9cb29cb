#include "runtime/data/sampler.h"

#include <bit>

#include "runtime/memory/philox.h"

namespace muster {

Sampler::Sampler(const TokenSource& source, std::uint64_t context, std::uint64_t seed)
    : source_(source),
      context_(context),
      seed_(seed),
      windows_(source.size() > context ? (source.size() - 1) / context : 0),
      half_bits_(windows_ > 1 ? (std::bit_width(windows_ - 1) + 1) / 2 : 1) {}

std::uint64_t Sampler::permute_once(std::uint64_t value, std::uint32_t epoch) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < 4; ++round) {
    const auto words = random_block(seed_, RandomPurpose::sample_order, epoch, right << 2 | round);
    const std::uint64_t mixed = left ^ (words[0] & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

std::uint64_t Sampler::window_of(std::uint64_t sample) const {
  const auto epoch = static_cast<std::uint32_t>(epoch_of(sample));
  std::uint64_t window = sample % windows_;
  do {
    window = permute_once(window, epoch);
  } while (window >= windows_);
  return window;
}

void Sampler::expect(std::uint64_t sample) const {
  source_.expect(window_of(sample) * context_, context_ + 1);
}

void Sampler::copy(std::uint64_t sample, std::span<std::uint32_t> tokens) const {
  source_.copy(window_of(sample) * context_, tokens);
}

}  // namespace muster

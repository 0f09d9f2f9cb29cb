// The order of samples: a permutation of all windows per epoch, each window once.
//
// A sample is a window of `context` + 1 tokens; windows start every `context` tokens of the whole
// line, so that every token but the first is a target once per epoch. The borders of files and
// documents do not count: a window may cross them. What is left behind the last whole window, less
// than `context` tokens, is not read.
//
// Sample g (counted from step 0 over the whole run, not per rank) is window P_e(g mod n) with
// e = g / n and n windows. P_e is a keyed bijection: a balanced Feistel network of four rounds over
// the next power of four, its round function Philox, walked until it lands inside [0, n) (Black,
// Rogaway: "Ciphers with Arbitrary Finite Domains", 2002). Pure function of (seed, g): any position
// in O(1), no state.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/data/token_source.h"

namespace muster {

class Sampler {
 public:
  // `source` outlives the sampler.
  Sampler(const TokenSource& source, std::uint64_t context, std::uint64_t seed);

  // Windows in one epoch; 0 when the line is too short for one.
  std::uint64_t windows() const { return windows_; }
  std::uint64_t epoch_of(std::uint64_t sample) const { return sample / windows_; }

  // Which window sample `sample` is, in [0, windows()).
  std::uint64_t window_of(std::uint64_t sample) const;

  // Tells the source that this sample is read soon.
  void expect(std::uint64_t sample) const;

  // Copies the context + 1 tokens of the sample into `tokens`. Throws DataError.
  void copy(std::uint64_t sample, std::span<std::uint32_t> tokens) const;

 private:
  std::uint64_t permute_once(std::uint64_t value, std::uint32_t epoch) const;

  const TokenSource& source_;
  std::uint64_t context_;
  std::uint64_t seed_;
  std::uint64_t windows_;
  unsigned half_bits_;
};

}  // namespace muster

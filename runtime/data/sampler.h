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

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace muster {

// Tokens that cannot be read in the middle of a run, as one sentence.
struct DataError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The line of tokens that a run reads, any stretch of it, from any thread: the bytes of text in
// memory, or files of tokens, mapped (shard_cache.h).
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::uint64_t size() const = 0;  // tokens

  // Tells that these tokens are read soon.
  virtual void expect(std::uint64_t /*at*/, std::uint64_t /*count*/) const {}

  // Copies tokens [at, at + tokens.size()), which lie inside the line. Throws DataError.
  virtual void copy(std::uint64_t at, std::span<std::uint32_t> tokens) const = 0;
};

// Text in memory: a token is a byte.
class TextTokens final : public TokenSource {
 public:
  explicit TextTokens(std::string text) : text_(std::move(text)) {}
  std::uint64_t size() const override { return text_.size(); }
  void copy(std::uint64_t at, std::span<std::uint32_t> tokens) const override {
    std::transform(text_.begin() + static_cast<std::ptrdiff_t>(at),
                   text_.begin() + static_cast<std::ptrdiff_t>(at + tokens.size()), tokens.begin(),
                   [](char byte) { return static_cast<unsigned char>(byte); });
  }

 private:
  std::string text_;
};

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
  void expect(std::uint64_t sample) const {
    source_.expect(window_of(sample) * context_, context_ + 1);
  }

  // Copies the context + 1 tokens of the sample into `tokens`. Throws DataError.
  void copy(std::uint64_t sample, std::span<std::uint32_t> tokens) const {
    source_.copy(window_of(sample) * context_, tokens);
  }

 private:
  std::uint64_t permute_once(std::uint64_t value, std::uint32_t epoch) const;

  const TokenSource& source_;
  std::uint64_t context_;
  std::uint64_t seed_;
  std::uint64_t windows_;
  unsigned half_bits_;
};

// Gathers the samples of the next step while the model computes this one.
//
// One thread of its own, two buffers: while the caller reads the samples of step k, those of step
// k + 1 are gathered, and no further. Any step may be asked for; the steps after it are then taken
// to follow. What the thread cannot read is thrown where the step is taken.

// Which samples of each step: `count` of them from sample step * batch + first on.
struct StepSamples {
  std::uint64_t batch = 0;  // samples per step, over all ranks
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t steps = 0;  // none is gathered from this step on, unless it is asked for
};

class Prefetch {
 public:
  // `sampler` outlives this object.
  Prefetch(const Sampler& sampler, std::uint64_t context, const StepSamples& samples);

  // The tokens of step `step`, [count, context + 1], valid until the next call. Throws DataError.
  std::span<const std::uint32_t> take(std::uint64_t step);

  // How long the last take() waited.
  double waited_s() const { return waited_s_; }

 private:
  struct Buffer {
    std::optional<std::uint64_t> step;  // that it holds
    std::vector<std::uint32_t> tokens;
    std::exception_ptr error;
  };

  void serve(const std::stop_token& ended);
  void gather(std::uint64_t step, Buffer& buffer) const;
  Buffer& other_than_taken() { return buffers_[1 - taken_]; }

  const Sampler& sampler_;
  const std::uint64_t window_;
  const StepSamples samples_;
  double waited_s_ = 0;

  std::mutex mutex_;  // guards what follows, but for the content of the buffer that is gathered
  std::condition_variable_any changed_;
  Buffer buffers_[2];
  std::size_t taken_ = 0;                // the buffer that the caller reads
  std::optional<std::uint64_t> wanted_;  // the step to gather into the other one
  std::jthread thread_;
};

}  // namespace muster

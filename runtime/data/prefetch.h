// Gathers the samples of the next step while the model computes this one.
//
// One thread of its own, two buffers: while the caller reads the samples of step k, those of step
// k + 1 are gathered, and no further. Any step may be asked for; the steps after it are then taken
// to follow. What the thread cannot read is thrown where the step is taken.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "runtime/data/sampler.h"

namespace muster {

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
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

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

  void serve();
  void gather(std::uint64_t step, Buffer& buffer) const;
  Buffer& other_than_taken() { return buffers_[1 - taken_]; }

  const Sampler& sampler_;
  const std::uint64_t window_;
  const StepSamples samples_;
  double waited_s_ = 0;

  std::mutex mutex_;  // guards what follows, but for the content of the buffer that is gathered
  std::condition_variable changed_;
  Buffer buffers_[2];
  std::size_t taken_ = 0;                // the buffer that the caller reads
  std::optional<std::uint64_t> wanted_;  // the step to gather into the other one
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace muster

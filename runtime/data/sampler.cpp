#include "runtime/data/sampler.h"

#include <bit>
#include <chrono>

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

Prefetch::Prefetch(const Sampler& sampler, std::uint64_t context, const StepSamples& samples)
    : sampler_(sampler), window_(context + 1), samples_(samples) {
  for (Buffer& buffer : buffers_) buffer.tokens.resize(samples.count * window_);
  thread_ = std::jthread([this](const std::stop_token& ended) { serve(ended); });
}

// All reads are announced before the first one waits.
void Prefetch::gather(std::uint64_t step, Buffer& buffer) const {
  const std::uint64_t first = step * samples_.batch + samples_.first;
  for (std::uint64_t i = 0; i < samples_.count; ++i) sampler_.expect(first + i);
  for (std::uint64_t i = 0; i < samples_.count; ++i) {
    sampler_.copy(first + i, std::span(buffer.tokens).subspan(i * window_, window_));
  }
}

void Prefetch::serve(const std::stop_token& ended) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, ended, [this] { return wanted_.has_value(); }) &&
         !ended.stop_requested()) {
    const std::uint64_t step = *wanted_;
    Buffer& buffer = other_than_taken();
    buffer.step.reset();
    buffer.error = nullptr;
    lock.unlock();
    std::exception_ptr error;
    try {
      gather(step, buffer);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    buffer.error = error;
    buffer.step = step;
    if (wanted_ == step) wanted_.reset();
    changed_.notify_all();
  }
}

std::span<const std::uint32_t> Prefetch::take(std::uint64_t step) {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  // A step that was not expected replaces the one that is being gathered.
  if (other_than_taken().step != step) wanted_ = step;
  changed_.notify_all();
  changed_.wait(lock, [&] { return !wanted_ && other_than_taken().step == step; });
  waited_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  taken_ = 1 - taken_;
  if (const std::exception_ptr error = buffers_[taken_].error) {
    buffers_[taken_].step.reset();
    std::rethrow_exception(error);
  }
  if (step + 1 < samples_.steps) wanted_ = step + 1;
  changed_.notify_all();
  return buffers_[taken_].tokens;
}

}  // namespace muster

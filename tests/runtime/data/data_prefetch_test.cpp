#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "runtime/data/sampler.h"
#include "tests/catch.h"
#include "tests/runtime/a_dataset.h"

using namespace muster;
using namespace muster::test;

namespace {

// Numbers in a row, which count how far they were read, and fail or wait where they are told to.
class WatchedTokens final : public TokenSource {
 public:
  std::uint64_t size() const override { return 801; }
  void copy(std::uint64_t at, std::span<std::uint32_t> tokens) const override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !held_; });
    if (fails_) throw DataError("the disk is gone");
    ++copies_;
    changed_.notify_all();
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint32_t>(at + i);
  }
  void hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  void fail(bool fails) {
    const std::lock_guard lock(mutex_);
    fails_ = fails;
  }
  void wait_for_copies(int copies) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return copies_ >= copies; });
  }
  int copies() const {
    const std::lock_guard lock(mutex_);
    return copies_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int copies_ = 0;
  bool held_ = false;
  bool fails_ = false;
};

void check_step(const Sampler& sampler, const StepSamples& samples, std::uint64_t step,
                std::span<const std::uint32_t> tokens) {
  REQUIRE(tokens.size() == samples.count * 9);
  for (std::uint64_t i = 0; i < samples.count; ++i) {
    std::vector<std::uint32_t> expected(9);
    sampler.copy(step * samples.batch + samples.first + i, expected);
    CHECK(std::equal(expected.begin(), expected.end(), &tokens[i * 9]));
  }
}

}  // namespace

TEST_CASE("the samples of every step are those that the sampler gives, in any order of steps") {
  WatchedTokens line;
  const Sampler sampler(line, 8, 5);
  const StepSamples samples{12, 4, 3, 100};
  Prefetch prefetch(sampler, 8, samples);
  for (const std::uint64_t step : {0, 1, 2, 3, 7, 8, 2, 2, 50, 99, 100, 101}) {
    check_step(sampler, samples, step, prefetch.take(step));
  }
}

TEST_CASE("the time that a step waited for its samples is told, and no more than that") {
  WatchedTokens line;
  const Sampler sampler(line, 8, 5);
  Prefetch prefetch(sampler, 8, {4, 0, 4, 9});
  line.hold(true);
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::thread release([&] {
    while (Clock::now() - begin < std::chrono::milliseconds(30)) std::this_thread::yield();
    line.hold(false);
  });
  prefetch.take(3);
  const double whole = std::chrono::duration<double>(Clock::now() - begin).count();
  release.join();
  CHECK(prefetch.waited_s() <= whole);
  CHECK(prefetch.waited_s() > 0.02);
  line.wait_for_copies(8);  // step 4 is there
  const auto again = Clock::now();
  prefetch.take(4);
  CHECK(prefetch.waited_s() <= std::chrono::duration<double>(Clock::now() - again).count());
}

TEST_CASE("the next step is gathered while this one is used, and nothing beyond it") {
  WatchedTokens line;
  const Sampler sampler(line, 8, 5);
  Prefetch prefetch(sampler, 8, {4, 0, 4, 3});
  prefetch.take(0);
  line.wait_for_copies(8);
  CHECK(line.copies() == 8);
  line.hold(true);  // step 1 is there already: taking it needs no read
  prefetch.take(1);
  line.hold(false);
  line.wait_for_copies(12);
  prefetch.take(2);
  // There is no step 3; a thread that believes in one gets the time to show it.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  while (line.copies() == 12 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  CHECK(line.copies() == 12);
}

TEST_CASE("what the thread cannot read is thrown where the step is taken, and may be tried again") {
  WatchedTokens line;
  const Sampler sampler(line, 8, 5);
  const StepSamples samples{4, 0, 4, 9};
  Prefetch prefetch(sampler, 8, samples);
  line.fail(true);
  CHECK_THROWS_WITH(prefetch.take(3), ContainsSubstring("the disk is gone"));
  CHECK_THROWS_AS(prefetch.take(3), DataError);
  line.fail(false);
  const auto tokens = prefetch.take(3);
  check_step(sampler, samples, 3, tokens);
}

TEST_CASE("a prefetch that was never asked, or is in the middle of a step, ends at once") {
  WatchedTokens line;
  const Sampler sampler(line, 8, 5);
  { Prefetch prefetch(sampler, 8, {4, 0, 4, 9}); }
  for (int i = 0; i < 50; ++i) {
    Prefetch prefetch(sampler, 8, {4, 0, 4, 9});
    prefetch.take(static_cast<std::uint64_t>(i));
  }
}

TEST_CASE("several readers gather from the same mapped files") {
  Folder folder;
  ADataset{folder / "set", 5000, 700}.write();
  const auto line = opened(found_at(folder / "set"));
  const Sampler sampler(*line, 8, 5);
  const StepSamples first{16, 0, 8, 20};
  const StepSamples second{16, 8, 8, 20};
  Prefetch a(sampler, 8, first);
  Prefetch b(sampler, 8, second);
  for (std::uint64_t step = 0; step < 20; ++step) {
    const auto from_a = a.take(step);
    const auto from_b = b.take(step);
    check_step(sampler, first, step, from_a);
    check_step(sampler, second, step, from_b);
  }
}

#include "scheduler/failure/step_pace.h"

#include <algorithm>
#include <vector>

namespace muster {

namespace {

constexpr std::size_t remembered = 200;
constexpr std::size_t pauses_remembered = 8;
// With fewer the 95th percentile is the largest of a handful.
constexpr std::size_t enough = 8;
// One long step is a pause; five in a row are a pace.
constexpr std::size_t streak = 5;
constexpr std::size_t few = 5;

// Nobody is hurried whose steps take milliseconds.
constexpr Milliseconds least_suspicion{5'000};
constexpr Milliseconds least_death{60'000};
// Heartbeats are read twice a second: shorter differences are not seen.
constexpr Milliseconds least_slow_step{1'000};

Milliseconds quantile(std::vector<Milliseconds> all, int percent) {
  if (all.empty()) return Milliseconds{0};
  const std::size_t at =
      std::min(all.size() - 1, all.size() * static_cast<std::size_t>(percent) / 100);
  const auto place = all.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(all.begin(), place, all.end());
  return *place;
}

void push(std::deque<Milliseconds>& ring, Milliseconds value, std::size_t limit) {
  ring.push_back(value);
  if (ring.size() > limit) ring.pop_front();
}

}  // namespace

void StepPace::add(Milliseconds interval) {
  if (is_learned()) {
    const bool is_long = interval > std::max(3 * usual_, least_slow_step);
    const bool is_short = interval <= std::max(2 * usual_, least_slow_step);
    long_in_a_row_ = is_long ? long_in_a_row_ + 1 : 0;
    short_in_a_row_ = is_short ? short_in_a_row_ + 1 : 0;
    if (long_in_a_row_ >= streak) is_slow_ = true;
    if (short_in_a_row_ >= streak) is_slow_ = false;
    if (interval > late_after()) push(pauses_, interval, pauses_remembered);
  }
  push(intervals_, interval, remembered);
  learn();
}

void StepPace::learn() {
  const std::vector<Milliseconds> all(intervals_.begin(), intervals_.end());
  p95_ = quantile(all, 95);
  p99_ = quantile(all, 99);
  const std::size_t latest = std::min(few, all.size());
  recent_ = quantile({all.end() - static_cast<std::ptrdiff_t>(latest), all.end()}, 50);
  if (!is_slow_ && long_in_a_row_ == 0) usual_ = quantile(all, 50);
}

bool StepPace::is_learned() const {
  return intervals_.size() >= enough;
}

Milliseconds StepPace::longest_pause() const {
  if (pauses_.empty()) return Milliseconds{0};
  return *std::ranges::max_element(pauses_);
}

Milliseconds StepPace::late_after() const {
  return std::max(least_suspicion, 4 * p95_);
}

Milliseconds StepPace::suspect_after() const {
  return std::max(late_after(), longest_pause() * 3 / 2);
}

// The reference adds max(60 s, 3 x p99); twenty times the p95 leaves room for a run whose every
// step suddenly takes ten times as long and sleeps through it.
Milliseconds StepPace::dead_after() const {
  return suspect_after() + std::max({least_death, 3 * p99_, 20 * p95_, 2 * longest_pause()});
}

Milliseconds StepPace::lost_after(Milliseconds declared) const {
  return std::max({declared, dead_after(), 60 * p95_, 3 * longest_pause()});
}

}  // namespace muster

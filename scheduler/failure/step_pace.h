// How fast a run goes, learned from its own steps: what is usual, what is rare but has happened,
// and whether it has become slow. Pure: knows durations, no clock. Owned by StallWatch.
//
// The last 200 intervals count. A streak of long ones does not change what is usual, so that a run
// that becomes slow is told from one that always was.
#pragma once

#include <cstddef>
#include <deque>

#include "scheduler/text/clock.h"

namespace muster {

class StepPace {
 public:
  // The time from one step to the next, as it was seen.
  void add(Milliseconds interval);

  // Before that nothing is usual: there are too few intervals.
  bool is_learned() const;
  Milliseconds usual() const { return usual_; }  // the median
  Milliseconds recent() const { return recent_; }  // the median of the latest few
  // Without a step for so long something may be wrong: longer than all but a few intervals, and
  // than the pauses (saves, evaluations) that the run has shown to get over.
  Milliseconds suspect_after() const;
  // Without a step and without any sign of life for so long nobody will come back.
  Milliseconds dead_after() const;
  // The same for ranks that compute on without a step: an evaluation, a collective that spins.
  Milliseconds lost_after(Milliseconds declared) const;
  // Of the reference alone: max(5 s, 4 x p95).
  Milliseconds late_after() const;
  bool is_slow() const { return is_slow_; }

 private:
  void learn();
  Milliseconds longest_pause() const;

  std::deque<Milliseconds> intervals_;
  std::deque<Milliseconds> pauses_;  // the latest that were longer than `late_after`
  Milliseconds usual_{0};
  Milliseconds recent_{0};
  Milliseconds p95_{0};
  Milliseconds p99_{0};
  std::size_t long_in_a_row_ = 0;
  std::size_t short_in_a_row_ = 0;
  bool is_slow_ = false;
};

}  // namespace muster

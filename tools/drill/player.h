// When a step of a drill is due. Pure: what is seen of the job goes in, with the time; the step
// that is to be done now comes out. Steps are done in order: each waits for its condition, then for
// its pause, and then the next begins to wait.
//
//   waiting ──condition holds──► pausing ──pause is over──► due ──done()──► the next one, or none
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/text/clock.h"
#include "tools/drill/file.h"

namespace muster {

struct DrillView {
  Milliseconds now{0};  // since the job was queued
  std::string state;
  std::optional<std::int64_t> step;        // of the running attempt
  std::optional<std::int64_t> attempt;     // the newest
  std::optional<std::int64_t> checkpoint;  // the newest sealed one's step
  std::string save;                        // the newest checkpoint directory, sealed or not
  bool has_output = false;                 // of the newest attempt
};

// `before`: what there was when the wait for it began.
bool holds(const DrillCondition& condition, const DrillView& view, const DrillView& before);

// The one source of chance in a drill: the same seed, the same choices.
class DrillDice {
 public:
  explicit DrillDice(std::uint64_t seed) : generator_(seed) {}
  // From 0 to `count` - 1.
  std::size_t pick(std::size_t count);
  Milliseconds between(Milliseconds least, Milliseconds most);

 private:
  std::mt19937_64 generator_;
};

class DrillPlayer {
 public:
  DrillPlayer(const std::vector<DrillStep>& steps, DrillDice& dice) : steps_(steps), dice_(dice) {}

  // The step to do now; null: none yet. The same again until `done`.
  const DrillStep* due(const DrillView& view);
  void done();
  bool is_over() const { return next_ == steps_.size(); }
  std::size_t done_count() const { return next_; }

 private:
  struct Waiting {
    DrillView before;
  };
  struct Pausing {
    Milliseconds until;
  };
  struct Unseen {};  // nothing has been seen since the step became the next

  const std::vector<DrillStep>& steps_;
  DrillDice& dice_;
  std::size_t next_ = 0;
  std::variant<Unseen, Waiting, Pausing> phase_;
};

}  // namespace muster

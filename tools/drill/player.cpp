#include "tools/drill/player.h"

namespace muster {

bool holds(const DrillCondition& condition, const DrillView& view, const DrillView& before) {
  if (const auto* step = std::get_if<StepTest>(&condition)) {
    return view.step && step->test.holds(*view.step);
  }
  if (const auto* attempt = std::get_if<AttemptTest>(&condition)) {
    return view.attempt && attempt->test.holds(*view.attempt);
  }
  if (const auto* state = std::get_if<StateTest>(&condition)) {
    return (view.state == state->state) == state->equal;
  }
  if (std::holds_alternative<SaveBegun>(condition)) {
    return !view.save.empty() && view.save != before.save;
  }
  if (std::holds_alternative<OutputBegun>(condition)) return view.has_output;
  return view.checkpoint && view.checkpoint != before.checkpoint;
}

// The remainder favours small numbers by less than one in a billion.
std::size_t DrillDice::pick(std::size_t count) {
  return static_cast<std::size_t>(generator_() % count);
}

Milliseconds DrillDice::between(Milliseconds least, Milliseconds most) {
  if (least == most) return least;
  return least + Milliseconds(pick(static_cast<std::size_t>((most - least).count()) + 1));
}

const DrillStep* DrillPlayer::due(const DrillView& view) {
  if (is_over()) return nullptr;
  const DrillStep& step = steps_[next_];
  if (std::holds_alternative<Unseen>(phase_)) phase_ = Waiting{view};
  if (const auto* waiting = std::get_if<Waiting>(&phase_)) {
    if (step.when && !holds(*step.when, view, waiting->before)) return nullptr;
    phase_ = Pausing{view.now + dice_.between(step.after.least, step.after.most)};
  }
  return view.now >= std::get<Pausing>(phase_).until ? &step : nullptr;
}

void DrillPlayer::done() {
  ++next_;
  phase_ = Unseen{};
}

}  // namespace muster

#include "runtime/train/step_guard.h"

#include <csignal>

namespace muster {

StepGuard::StepGuard(const TrainOptions& options, std::uint64_t rank, std::uint64_t attempt,
                     Communicator& ranks)
    : options_(options), rank_(rank), attempt_(attempt), ranks_(ranks) {}

bool StepGuard::is_asked(const std::optional<std::uint64_t>& step,
                         const TrainingState& state) const {
  return step == state.step + 1 && rank_ == options_.fail_rank && attempt_ == 0;
}

std::optional<HardwareDoubt> StepGuard::before_step(TrainingState& state) {
  if (is_asked(options_.fail_at_step, state)) std::raise(SIGKILL);  // as a crash would
  if (!options_.flip_gradient && is_asked(options_.flip_at_step, state)) {
    flip_top_bit(state.weights.front());
  }
  const std::uint64_t every = options_.replica_check_every;
  if (every == 0 || state.step % every != 0) return std::nullopt;
  if (state.holds_own_only(state.weights)) return std::nullopt;
  return compare_replicas(state.weights, state.step, ranks_);
}

void StepGuard::watch(const TrainingState& state, StepWishes& wishes) {
  wishes.is_doubtful = [this, &state](double loss, double gradient_norm) {
    return replays_.is_due(state.step, window_.look(loss, gradient_norm));
  };
  wishes.flip_gradient = options_.flip_gradient && is_asked(options_.flip_at_step, state);
}

LossWindow::Look StepGuard::step_done(const StepOutcome& outcome) {
  const LossWindow::Look look = window_.look(outcome.loss, outcome.gradient_norm);
  window_.add(outcome.loss, outcome.gradient_norm);
  return look;
}

}  // namespace muster

#include "runtime/train/step/step_guard.h"

#include <csignal>

#include "runtime/train/step/divergence.h"

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
    return replays_.is_due(state.step, look(loss, gradient_norm, state));
  };
  wishes.flip_gradient = options_.flip_gradient && is_asked(options_.flip_at_step, state);
}

// Beside the latest steps and beside the best of the run: a level that stays is usual to the first.
LossWindow::Look StepGuard::look(double loss, double gradient_norm,
                                 const TrainingProgress& progress) const {
  const LossWindow::Look look = window_.look(loss, gradient_norm);
  const bool is_usual = look == LossWindow::Look::usual;
  return is_usual && is_far_above(loss, progress.best_loss) ? LossWindow::Look::stands_out : look;
}

LossWindow::Look StepGuard::step_done(const StepOutcome& outcome, TrainingProgress& progress) {
  const LossWindow::Look seen = look(outcome.loss, outcome.gradient_norm, progress);
  window_.add(outcome.loss, outcome.gradient_norm);
  if (outcome.skipped) return seen;
  const double first = progress.best_loss > 0 ? progress.best_loss : outcome.loss;
  const double lowest = window_.recent_loss().value_or(first);
  if (progress.best_loss <= 0 || lowest < progress.best_loss) {
    progress.best_loss = lowest;
    progress.best_step = progress.step;
  }
  const bool is_bad = is_far_above(outcome.loss, progress.best_loss);
  progress.far_above_in_a_row = is_bad ? progress.far_above_in_a_row + 1 : 0;
  return seen;
}

}  // namespace muster

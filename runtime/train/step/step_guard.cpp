#include "runtime/train/step/step_guard.h"

#include <algorithm>
#include <bit>
#include <csignal>

#include "runtime/checkpoint/tensor_stats.h"
#include "runtime/memory/bf16.h"
#include "runtime/train/step/divergence.h"

namespace muster {

namespace {

constexpr const char* other_sum = "sum";

bool has_same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

// What ranks computed alone accuses them. A sum of all that differs does so only where nothing else
// does: the others' shares of it are known to be the same then, if they are known at all.
std::optional<HardwareDoubt> judge_sums(std::uint64_t step, std::vector<std::string> differences,
                                        bool shares_are_known) {
  const bool is_accused = std::any_of(differences.begin(), differences.end(), [](const auto& text) {
    return !text.empty() && text != other_sum;
  });
  const bool differs = std::count(differences.begin(), differences.end(), other_sum) > 0;
  if (!is_accused && differs && !shares_are_known) {
    return HardwareDoubt{{},
                         "step " + std::to_string(step) +
                             " gave another gradient when it was computed again, and it cannot be "
                             "known on which rank"};
  }
  for (std::string& text : differences) {
    if (text == other_sum) text = is_accused ? "" : "gradient";
  }
  return judge_replay(step, differences);
}

}  // namespace

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

// Collective. Afterwards the buffers hold the second result, which is that of the first when there
// is no doubt.
std::optional<HardwareDoubt> DataParallelStep::replay(TrainingState& state) {
  const std::uint64_t sum = plane_hash(0, 0, gradients_->reduced());
  const std::uint64_t shares = gradients_->hash_of_shares();
  const std::vector<double> losses = leaf_losses_;
  sum_own_leaves(state);
  weights_->finish();
  std::string difference;
  if (!std::equal(losses.begin(), losses.end(), leaf_losses_.begin(), has_same_bits)) {
    difference = "loss";
  } else if (shares != gradients_->hash_of_shares()) {
    difference = "gradient";
  } else if (sum != plane_hash(0, 0, gradients_->reduced())) {
    difference = other_sum;
  }
  return judge_sums(state.step + 1, ranks_.gather_texts(difference), !streams_);
}

}  // namespace muster

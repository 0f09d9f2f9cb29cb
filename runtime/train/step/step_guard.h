// Watches the steps of one set of ranks for hardware that errs (guard.h), and makes one err or die
// where the options ask for it. All ranks of the set make theirs before the same step and so judge
// alike. Reads the weights, changes none unless a fault is asked for.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/communicator/communicator.h"
#include "runtime/train/step/data_parallel_step.h"
#include "runtime/train/step/guard.h"
#include "runtime/train/step/options.h"
#include "runtime/train/step/training_state.h"

namespace muster {

class StepGuard {
 public:
  // `rank` is what --fail-rank names, and faults are asked for only in attempt 0. `options` and
  // `ranks` outlive this object.
  StepGuard(const TrainOptions& options, std::uint64_t rank, std::uint64_t attempt,
            Communicator& ranks);

  // Before a step, every so many steps: are all weights the same on all ranks that hold them?
  // Collective.
  std::optional<HardwareDoubt> before_step(TrainingState& state);
  // Adds to a step's wishes that it is computed again when it stands out. `state`, which it starts
  // from, outlives the step.
  void watch(const TrainingState& state, StepWishes& wishes);
  // How the step looked beside those before it; the progress it led to takes it in.
  LossWindow::Look step_done(const StepOutcome& outcome, TrainingProgress& progress);

 private:
  LossWindow::Look look(double loss, double gradient_norm, const TrainingProgress& progress) const;
  bool is_asked(const std::optional<std::uint64_t>& step, const TrainingState& state) const;

  const TrainOptions& options_;
  const std::uint64_t rank_;
  const std::uint64_t attempt_;
  Communicator& ranks_;
  LossWindow window_;
  ReplayRule replays_;
};

}  // namespace muster

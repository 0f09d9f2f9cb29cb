// One optimizer step over all ranks.
//
//   1. each rank sums the gradients of its leaves, joining them in the fixed tree (bucket.h); in
//      the last backward every bucket that is complete goes to its owners, who join the rest of the
//      tree, while backward goes on
//   2. losses, and the gradient's sums of squares per block of 1024 elements, are added in order
//   3. weights are updated by AdamW, dividing by the number of tokens once: each by its owner, who
//      sends it to the others while the next ones are updated; or all by all, from gradients that
//      are sent
//
// With a fixed number of leaves no sum depends on the number of ranks, and none depends on the
// stage of --zero (training_state.h), which decides what is kept where. A step whose gradient is
// not finite leaves weights and moments as they were. Buffers are allocated in the first step.
// Collective: all ranks call run().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/communicator/communicator.h"
#include "runtime/data/sampler.h"
#include "runtime/model/gpt.h"
#include "runtime/train/step/guard.h"
#include "runtime/train/step/options.h"
#include "runtime/train/step/training_state.h"
#include "runtime/zero/bucket.h"
#include "runtime/zero/rank_blocks.h"
#include "scheduler/text/fields.h"

namespace muster {

struct StepNumbers {
  double loss = 0;           // mean nats per token
  double gradient_norm = 0;  // before clipping
  double lr = 0;
  bool skipped = false;
};

struct StepOutcome : StepNumbers {
  double data_wait_s = 0;          // this rank's, for the samples of this step
  double exchange_s = 0;           // this rank's, with the others and waiting for them
  bool stop = false;               // some rank was asked to stop; all ranks see the same
  std::vector<std::string> notes;  // of all ranks, by rank
  // Computed again, a rank's part had other bits: the state stays as it was before the step.
  std::optional<HardwareDoubt> doubt;
};

// What one rank brings to a step beside its data.
struct StepWishes {
  bool stop = false;                         // after this step
  std::string note;                          // for the others
  std::function<void()> before_update = {};  // weights and moments change after it
  // Whether the step is to be computed again; the same on all ranks.
  std::function<bool(double loss, double gradient_norm)> is_doubtful = {};
  bool flip_gradient = false;  // a bit of this rank's gradient, the first time it is computed
};

class DataParallelStep {
 public:
  // Everything passed by reference, and the trace if there is one, outlives this object.
  DataParallelStep(const TrainOptions& options, const BatchPlan& plan, const FlatSpace& space,
                   const Sampler& sampler, Communicator& ranks, Trace* trace = nullptr);

  // Takes `state` from step k to k + 1.
  StepOutcome run(TrainingState& state, const StepWishes& wishes);

 private:
  struct RankReport {
    bool stop = false;
    std::string note;
    std::vector<double> leaf_losses;
    std::vector<double> block_squares;
    MUSTER_FIELDS(stop, note, leaf_losses, block_squares)
  };

  std::unique_ptr<GradientMemory> make_gradients();
  std::unique_ptr<WeightMemory> make_weights();

  void sum_own_leaves(TrainingState& state);
  std::span<const Token> take_samples(std::uint64_t step);
  double sum_leaf(std::span<const Token> tokens, bool is_last);
  void join_idle_passes();
  std::optional<HardwareDoubt> replay(TrainingState& state);
  StepOutcome gather_reports(const StepWishes& wishes, std::uint64_t step);
  void update_own(TrainingState& state, const StepOutcome& outcome);
  void update_all(TrainingState& state, const StepOutcome& outcome);
  void update(TrainingState& state, const ElementRange& range, std::span<const float> gradient,
              const StepOutcome& outcome) const;
  std::uint64_t passes_of(std::size_t rank) const {
    return plan_.passes(owned_leaves(plan_.leaves, rank, ranks_.size()));
  }
  double tokens() const { return static_cast<double>(plan_.batch * options_.shape.context); }

  const TrainOptions& options_;
  const BatchPlan plan_;
  const FlatSpace& space_;
  Communicator& ranks_;
  Trace* trace_;
  double exchange_s_ = 0;  // of this step

  Division division_;
  bool streams_;  // gradients, bucket by bucket
  GradientPlan gradient_plan_;
  GradientReduction reduction_;
  WholeGradients* whole_gradients_ = nullptr;  // when they are whole
  std::unique_ptr<GradientMemory> gradients_;
  std::unique_ptr<WeightMemory> weights_;
  RankBlocks blocks_;
  std::optional<TracedBlocks> traced_blocks_;
  LeafRange leaves_;  // of this rank
  std::unique_ptr<Gpt> model_;
  Prefetch prefetch_;                // of the sequences of these leaves
  std::vector<double> leaf_losses_;  // of this rank
};

// Watches the steps of one set of ranks for hardware that errs (guard.h), and makes one err or die
// where the options ask for it. All ranks of the set make theirs before the same step and so judge
// alike. Reads the weights, changes none unless a fault is asked for.
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

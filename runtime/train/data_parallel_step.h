// One optimizer step over all ranks.
//
//   1. each rank sums the gradients of its leaves, joining them in the fixed tree (leaf_tree.h)
//   2. reduce-scatter: tree nodes go to the owners of their elements, who join the rest of the tree
//   3. losses, and the gradient's sums of squares per block of 1024 elements, are added in order
//   4. owners update their weights by AdamW, dividing by the number of tokens once
//   5. all-gather of the weights
//
// With a fixed number of leaves no sum depends on the number of ranks. A step whose gradient is not
// finite leaves weights and moments as they were. Buffers are allocated in the constructor.
// Collective: all ranks call run().
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/communicator/communicator.h"
#include "runtime/communicator/leaf_tree.h"
#include "runtime/data/prefetch.h"
#include "runtime/model/gpt.h"
#include "runtime/train/batch_plan.h"
#include "runtime/train/options.h"
#include "runtime/train/training_state.h"

namespace muster {

struct StepOutcome {
  double loss = 0;           // mean nats per token
  double gradient_norm = 0;  // before clipping
  double lr = 0;
  bool skipped = false;
  double data_wait_s = 0;          // this rank's, for the samples of this step
  double exchange_s = 0;           // this rank's, with the others and waiting for them
  bool stop = false;               // some rank was asked to stop; all ranks see the same
  std::vector<std::string> notes;  // of all ranks, by rank
};

// What one rank brings to a step beside its data.
struct StepWishes {
  bool stop = false;                         // after this step
  std::string note;                          // for the others
  std::function<void()> before_update = {};  // weights and moments change after it
};

class DataParallelStep {
 public:
  // Everything passed by reference outlives this object.
  DataParallelStep(const TrainOptions& options, const BatchPlan& plan, const FlatSpace& space,
                   const Sampler& sampler, Communicator& ranks);

  // Takes `state` from step k to k + 1.
  StepOutcome run(TrainingState& state, const StepWishes& wishes);

 private:
  struct RankReport {
    bool stop = false;
    std::vector<std::string> notes;
    std::vector<double> leaf_losses;
    std::vector<double> block_squares;
  };

  void sum_own_leaves(const TrainingState& state);
  double sum_leaf(std::span<const Token> tokens, std::span<float> gradient);
  std::size_t take_slot();
  std::span<const float> exchange();
  RankReport gather_reports(const StepWishes& wishes, std::span<const float> gradient);
  void update(TrainingState& state, std::span<const float> gradient, const StepOutcome& outcome);

  const TrainOptions& options_;
  const BatchPlan plan_;
  const FlatSpace& space_;
  Communicator& ranks_;
  Gpt model_;

  std::vector<ElementRange> owned_;             // elements, by rank
  std::vector<std::vector<Subtree>> subtrees_;  // by rank
  LeafRange leaves_;                            // of this rank
  Prefetch prefetch_;                           // of the sequences of these leaves
  std::vector<double> leaf_losses_;             // of this rank
  std::vector<std::vector<float>> slots_;       // gradients of tree nodes, [numel] each
  std::vector<std::size_t> free_slots_;
  std::vector<std::size_t> node_slots_;  // of the nodes left after sum_own_leaves
  std::vector<float> received_;          // [tree nodes of all ranks, own elements]
};

}  // namespace muster

// Computing a step again, to tell a computer that errs from data that is odd.

#include <algorithm>
#include <bit>

#include "runtime/checkpoint/tensor_stats.h"
#include "runtime/train/step/data_parallel_step.h"

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
                             "told on which rank"};
  }
  for (std::string& text : differences) {
    if (text == other_sum) text = is_accused ? "" : "gradient";
  }
  return judge_replay(step, differences);
}

}  // namespace

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

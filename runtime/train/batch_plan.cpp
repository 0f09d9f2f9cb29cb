#include "runtime/train/batch_plan.h"

#include <bit>

#include "runtime/train/start_error.h"

namespace muster {
namespace {

// Enough for eight ranks, and small enough that a leaf of a small batch still fills a matrix
// product.
constexpr std::uint64_t usual_leaves = 8;

// Products with the largest context and width then fit 64 bits.
constexpr std::uint64_t batch_limit = 1 << 20;

std::uint64_t chosen_leaves(const TrainOptions& options, std::size_t ranks) {
  if (options.leaves != 0) return options.leaves;
  if (!options.deterministic) return std::bit_ceil(ranks);
  std::uint64_t leaves = usual_leaves;
  while (options.batch % leaves != 0) leaves /= 2;
  return leaves;
}

}  // namespace

BatchPlan make_batch_plan(const TrainOptions& options, std::size_t ranks) {
  if (options.batch == 0 || options.batch > batch_limit) {
    throw StartError("--batch: expected 1 to " + std::to_string(batch_limit) + ", got " +
                     std::to_string(options.batch));
  }
  BatchPlan plan;
  plan.batch = options.batch;
  plan.leaves = chosen_leaves(options, ranks);
  const std::string leaves = std::to_string(plan.leaves);
  if (!std::has_single_bit(plan.leaves)) {
    throw StartError("--leaves: expected a power of two, got " + leaves);
  }
  if (plan.leaves < ranks) {
    throw StartError("--leaves: " + leaves + " leaves cannot feed " + std::to_string(ranks) +
                     " ranks: use a larger --leaves or fewer ranks");
  }
  if (plan.batch % plan.leaves != 0) {
    throw StartError("--batch: " + std::to_string(plan.batch) + " sequences cannot be cut into " +
                     leaves + " equal leaves: use a multiple of " + leaves);
  }
  plan.micro_batch = options.micro_batch == 0 ? plan.leaf_sequences() : options.micro_batch;
  if (plan.leaf_sequences() % plan.micro_batch != 0) {
    throw StartError("--micro-batch: " + std::to_string(plan.micro_batch) +
                     " does not divide the " + std::to_string(plan.leaf_sequences()) +
                     " sequences of a leaf");
  }
  return plan;
}

}  // namespace muster

#include "runtime/train/step/batch_plan.h"

#include <algorithm>

#include "runtime/protocol/start_error.h"

namespace muster {
namespace {

// Enough for eight ranks, and few enough that a leaf of a small batch still fills a matrix product.
constexpr std::uint64_t usual_leaves = 8;

// Products with the largest context and width then fit 64 bits.
constexpr std::uint64_t batch_limit = 1 << 20;

// In per cent of the ranks' time.
constexpr std::uint64_t share_worth_a_remark = 85;

std::uint64_t chosen_leaves(const TrainOptions& options, std::size_t ranks) {
  if (options.leaves != 0) return options.leaves;
  if (!options.deterministic) return ranks;
  if (options.micro_batch != 0) return options.batch / options.micro_batch;
  std::uint64_t leaves = std::min(usual_leaves, options.batch);
  while (options.batch % leaves != 0) ++leaves;
  return leaves;
}

std::string counted(std::uint64_t number, const char* what) {
  return std::to_string(number) + " " + what;
}

void check_feeds(const BatchPlan& plan, std::size_t ranks, bool leaves_are_given) {
  const std::uint64_t most = std::max<std::uint64_t>(plan.leaves, ranks);
  const std::string whom =
      plan.leaves > ranks ? counted(plan.leaves, "chunks") : counted(ranks, "ranks");
  if (leaves_are_given && plan.leaves < ranks) {
    throw StartError("--accumulation-chunks: " + counted(plan.leaves, "chunks") + " cannot feed " +
                     whom + ": use a larger --accumulation-chunks or fewer ranks");
  }
  if (plan.batch < most) {
    throw StartError("--batch: " + counted(plan.batch, "sequences") + " cannot feed " + whom +
                     ": use a larger --batch or fewer ranks");
  }
  if (plan.micro_batches() < most) {
    throw StartError("--micro-batch: " + counted(plan.micro_batches(), "micro-batches of ") +
                     counted(plan.micro_batch, "sequences") + " cannot feed " + whom +
                     ": use a smaller --micro-batch, or a larger --batch");
  }
}

}  // namespace

SequenceRange BatchPlan::sequences(const LeafRange& of) const {
  const std::uint64_t unit = whole_leaves ? 1 : micro_batch;
  const std::uint64_t units = batch / unit;
  return {of.lo * units / leaves * unit, of.hi * units / leaves * unit};
}

std::uint64_t BatchPlan::most_sequences(std::size_t ranks) const {
  std::uint64_t most = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    most = std::max(most, sequences(owned_leaves(leaves, rank, ranks)).size());
  }
  return most;
}

BatchPlan make_batch_plan(const TrainOptions& options, std::size_t ranks) {
  if (options.batch == 0 || options.batch > batch_limit) {
    throw StartError("--batch: expected 1 to " + std::to_string(batch_limit) + ", got " +
                     std::to_string(options.batch));
  }
  BatchPlan plan;
  plan.batch = options.batch;
  plan.leaves = std::max<std::uint64_t>(1, chosen_leaves(options, ranks));
  plan.micro_batch = options.micro_batch;
  if (plan.micro_batch != 0 && plan.batch % plan.micro_batch != 0) {
    throw StartError("--batch: " + counted(plan.batch, "sequences") + " are no multiple of the " +
                     std::to_string(plan.micro_batch) + " of --micro-batch");
  }
  if (plan.micro_batch == 0) {
    plan.whole_leaves = options.leaves == 0 && !options.deterministic;
    const std::string leaves = std::to_string(plan.leaves);
    if (!plan.whole_leaves && plan.batch % plan.leaves != 0) {
      throw StartError("--batch: " + counted(plan.batch, "sequences") + " cannot be cut into " +
                       leaves + " equal chunks: use a multiple of " + leaves +
                       ", or set --micro-batch");
    }
    plan.micro_batch = (plan.batch + plan.leaves - 1) / plan.leaves;
  }
  check_feeds(plan, ranks, options.leaves != 0);
  return plan;
}

std::vector<std::string> sharing_remarks(const TrainOptions& options, std::size_t ranks) {
  const BatchPlan plan = make_batch_plan(options, ranks);
  std::vector<std::string> remarks;
  if (options.zero >= ZeroStage::gradients && ranks > 1 && !plan.has_one_pass_per_rank(ranks)) {
    remarks.push_back("--zero: every rank holds whole gradients, as the " +
                      counted(plan.micro_batches(), "micro-batches of a step are more than one ") +
                      "for each of " + counted(ranks, "ranks"));
  }
  const std::uint64_t most = plan.most_sequences(ranks);
  const std::uint64_t used = 100 * plan.batch / (most * ranks);
  if (used < share_worth_a_remark) {
    remarks.push_back("--batch: the slowest of " + counted(ranks, "ranks") + " computes " +
                      std::to_string(most) + " of " + counted(plan.batch, "sequences") +
                      " of a step, which uses " + std::to_string(used) +
                      " % of the ranks' time: use " +
                      (plan.micro_batch > 1 ? "a smaller --micro-batch, " : "") +
                      "a larger --batch or another number of ranks");
  }
  return remarks;
}

}  // namespace muster

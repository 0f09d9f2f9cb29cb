#include "runtime/estimate/rank_memory.h"

#include <algorithm>

#include "runtime/estimate/fit.h"
#include "runtime/estimate/processor_memory.h"
#include "runtime/protocol/start_error.h"
#include "runtime/report/flops.h"
#include "runtime/train/step/batch_plan.h"

namespace muster {

namespace {

// Of a GPU: work space of the matrix library for two streams, of a communicator in the middle of
// what NCCL takes, the driver's context. Then a twentieth for what does not fit seamlessly.
constexpr double work_space_bytes = 2 * 32.0 * 1024 * 1024;
constexpr double communicator_bytes = 0.9e9;
constexpr double context_bytes = 0.5e9;
constexpr double slack = 0.05;

std::uint64_t whole(double bytes) {
  return static_cast<std::uint64_t>(std::max(0.0, bytes));
}

struct GpuNumbers {
  double p, block, n, tokens, c, l, heads, v;
  double gradient_bytes;  // of one
};

// Sums of more than one gradient, and shares of sums, are fp32.
GpuNumbers numbers_of(const TrainOptions& options, std::size_t ranks) {
  const GptShape& shape = options.shape;
  const auto c = static_cast<double>(shape.width);
  const BatchPlan plan = make_batch_plan(options, ranks);
  const bool accumulates =
      plan.micro_batches() > ranks || options.zero >= ZeroStage::gradients;
  return {static_cast<double>(parameter_count(shape)),
          12 * c * c + 13 * c,
          static_cast<double>(ranks),
          static_cast<double>(plan.micro_batch * shape.context),
          c,
          static_cast<double>(shape.layers),
          static_cast<double>(shape.heads),
          static_cast<double>(shape.vocabulary),
          accumulates ? 4.0 : 2.0};
}

double gpu_activations(const GpuNumbers& at, bool recomputes) {
  const double layer = 32 * at.c + 4 * (at.heads + 4);  // of a token
  const double kept = recomputes ? 2 * at.c * at.l + layer : layer * at.l;
  return at.tokens * (kept + 2 * at.v + 10 * at.c);
}

RankMemory gpu_rank_memory(const TrainOptions& options, const RankLayout& layout) {
  const GpuNumbers at = numbers_of(options, layout.ranks);
  const auto share = [&](ZeroStage from) { return options.zero >= from ? at.n : 1.0; };
  RankMemory memory;
  memory.weights = whole(2 * at.p / share(ZeroStage::weights));
  memory.gradients = whole(at.gradient_bytes * at.p / share(ZeroStage::gradients));
  memory.optimizer = whole(12 * at.p / share(ZeroStage::moments));
  memory.activations = whole(gpu_activations(at, options.model.recompute));
  double buffers = layout.ranks > 1 ? communicator_bytes : 0;
  if (options.zero >= ZeroStage::gradients) buffers += 2 * 2 * at.block;  // gradients of two blocks
  if (options.zero == ZeroStage::weights) buffers += 2 * 2 * at.block;    // weights of two blocks
  memory.buffers = whole(buffers);
  const double so_far = static_cast<double>(memory.without_snapshot());
  memory.program = whole(work_space_bytes + context_bytes + slack * so_far);
  memory.snapshot = whole(12 * at.p / at.n);
  return memory;
}

// Of text; tokens bring their own, which lies with them on the nodes.
constexpr std::size_t usual_vocabulary = 256;

// Of the rank that takes most, with whatever number of ranks there are meanwhile.
std::uint64_t most_bytes(const TrainOptions& options, const RankLayout& layout) {
  if (!layout.least_ranks) return device_bytes(rank_memory(options, layout), layout.kind);
  std::uint64_t most = 0;
  RankLayout now = layout;
  for (now.ranks = *layout.least_ranks;; now.ranks = std::min(2 * now.ranks, layout.ranks)) {
    most = std::max(most, device_bytes(rank_memory(options, now), layout.kind));
    if (now.ranks >= layout.ranks) break;
  }
  if (layout.ranks == 1) return most;
  // Who joins gets the state of the others beside its own.
  RankMemory joining = rank_memory(options, layout);
  joining.gradients = joining.activations = joining.buffers = 0;
  joining.weights *= 2;
  joining.optimizer *= 2;
  return std::max(most, device_bytes(joining, layout.kind));
}

}  // namespace

RankMemory rank_memory(const TrainOptions& options, const RankLayout& layout) {
  const std::string fault = gpt_shape_fault(options.shape);
  if (!fault.empty()) throw StartError(fault);
  return layout.kind == RankKind::gpu ? gpu_rank_memory(options, layout)
                                      : processor_rank_memory(options, layout);
}

std::variant<RunMemory, ImpossibleRun, std::string> run_memory(
    const std::vector<std::string>& words, const RankLayout& layout,
    std::optional<std::uint64_t> limit_bytes) {
  auto parsed = read_train_options(words);
  if (const auto* fault = std::get_if<std::string>(&parsed)) return *fault;
  auto& options = std::get<TrainOptions>(parsed);
  if (options.shape.vocabulary == 0) options.shape.vocabulary = usual_vocabulary;
  if (layout.least_ranks) options = elastic_options(options);
  RunMemory memory;
  try {
    memory.remarks = sharing_remarks(options, layout.ranks);
    memory.bytes = most_bytes(options, layout);
  } catch (const StartError& error) {
    return ImpossibleRun{error.what()};
  }
  if (!limit_bytes || layout.least_ranks || memory.bytes <= *limit_bytes) return memory;
  const auto changes = cheapest_changes(options, layout, {*limit_bytes, {}}, {}, 1);
  if (!changes.empty()) memory.cheapest_change = changes.front().what;
  return memory;
}

}  // namespace muster

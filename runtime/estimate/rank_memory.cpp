#include "runtime/estimate/rank_memory.h"

#include <algorithm>

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

}  // namespace

RankMemory rank_memory(const TrainOptions& options, const RankLayout& layout) {
  const std::string fault = gpt_shape_fault(options.shape);
  if (!fault.empty()) throw StartError(fault);
  return layout.kind == RankKind::gpu ? gpu_rank_memory(options, layout)
                                      : processor_rank_memory(options, layout);
}

}  // namespace muster

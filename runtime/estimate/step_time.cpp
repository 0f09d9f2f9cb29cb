#include "runtime/estimate/step_time.h"

#include "runtime/train/step/batch_plan.h"

namespace muster {
namespace {

// Per parameter; muster-train sends fp32 whatever its products read.
double bytes_per_number(RankKind kind) {
  return kind == RankKind::gpu ? 2 : 4;
}

// Gradients that are kept whole leave once.
double sent_per_parameter(ZeroStage stage, double passes, double leaving) {
  switch (stage) {
    case ZeroStage::nothing:
    case ZeroStage::moments:
      return 2;
    case ZeroStage::gradients:
      return leaving + 1;
    case ZeroStage::weights:
      return 2 * passes + leaving;
  }
  return 0;
}

}  // namespace

StepTime step_time(const TrainOptions& options, const RankLayout& layout, const RankRates& rates) {
  const auto n = static_cast<double>(layout.ranks);
  const FlopsPerToken flops = flops_per_token(options.shape);
  StepTime time;
  time.tokens = static_cast<double>(options.batch) * static_cast<double>(options.shape.context);
  const BatchPlan plan = make_batch_plan(options, layout.ranks);
  const bool is_gpu = layout.kind == RankKind::gpu;
  const std::uint64_t most = plan.most_sequences(layout.ranks);
  const auto passes = static_cast<double>((most + plan.micro_batch - 1) / plan.micro_batch);
  time.flops = static_cast<double>(most * options.shape.context) *
               (options.model.recompute ? flops.recomputed : flops.megatron);
  time.bytes = static_cast<double>(parameter_count(options.shape)) * bytes_per_number(layout.kind) *
               sent_per_parameter(options.zero, passes, is_gpu ? passes : 1) * (n - 1) / n;
  if (rates.peak_flops > 0) time.compute_s = time.flops / (rates.peak_flops * rates.share_of_peak);
  if (rates.link_bytes_per_s > 0) time.communication_s = time.bytes / rates.link_bytes_per_s;
  return time;
}

}  // namespace muster

#include "runtime/estimate/step_time.h"

#include <algorithm>
#include <cmath>

namespace muster {
namespace {

// Per parameter; muster-train sends fp32 whatever its products read.
double bytes_per_number(RankKind kind) {
  return kind == RankKind::gpu ? 2 : 4;
}

double sent_per_parameter(ZeroStage stage, double passes) {
  switch (stage) {
    case ZeroStage::nothing:
    case ZeroStage::moments:
      return 2;
    case ZeroStage::gradients:
      return passes + 1;
    case ZeroStage::weights:
      return 3 * passes;
  }
  return 0;
}

}  // namespace

StepTime step_time(const TrainOptions& options, const RankLayout& layout, const RankRates& rates) {
  const auto n = static_cast<double>(layout.ranks);
  const FlopsPerToken flops = flops_per_token(options.shape);
  StepTime time;
  time.tokens = static_cast<double>(options.batch) * static_cast<double>(options.shape.context);
  const double own_sequences = static_cast<double>(options.batch) / n;
  const double passes = std::ceil(own_sequences / static_cast<double>(options.micro_batch));
  time.flops = time.tokens / n * (options.model.recompute ? flops.recomputed : flops.megatron);
  time.bytes = static_cast<double>(parameter_count(options.shape)) * bytes_per_number(layout.kind) *
               sent_per_parameter(options.zero, passes) * (n - 1) / n;
  if (rates.peak_flops > 0) time.compute_s = time.flops / (rates.peak_flops * rates.share_of_peak);
  if (rates.link_bytes_per_s > 0) time.communication_s = time.bytes / rates.link_bytes_per_s;
  return time;
}

}  // namespace muster

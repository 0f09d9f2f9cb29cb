#include "runtime/report/flops.h"

namespace muster {
namespace {

double parameters_in_products(const GptShape& shape) {
  const std::uint64_t looked_up_only = shape.tied ? 0 : shape.vocabulary * shape.width;
  return static_cast<double>(parameter_count(shape) - looked_up_only);
}

}  // namespace

std::uint64_t parameter_count(const GptShape& shape) {
  const std::uint64_t c = shape.width;
  const std::uint64_t layer = 12 * c * c + 13 * c;
  const std::uint64_t heads = (shape.tied ? 1 : 2) * shape.vocabulary * c;
  return heads + shape.context * c + shape.layers * layer + 2 * c;
}

FlopsPerToken flops_per_token(const GptShape& shape) {
  const double p = parameters_in_products(shape);
  const auto l = static_cast<double>(shape.layers);
  const auto c = static_cast<double>(shape.width);
  const auto t = static_cast<double>(shape.context);
  const auto v = static_cast<double>(shape.vocabulary);
  return {6 * p + 6 * l * c * t, 72 * l * c * c * (1 + t / (6 * c) + v / (12 * l * c)),
          96 * l * c * c * (1 + t / (6 * c) + v / (16 * l * c))};
}

Utilisation utilisation_of(const FlopsPerToken& flops, double tokens_per_s, double peak_flops,
                           bool recomputes) {
  Utilisation use;
  use.tflops = flops.causal * tokens_per_s / 1e12;
  if (peak_flops <= 0) return use;
  use.mfu_a = flops.causal * tokens_per_s / peak_flops;
  use.mfu_b = flops.megatron * tokens_per_s / peak_flops;
  if (recomputes) use.hfu = flops.recomputed * tokens_per_s / peak_flops;
  return use;
}

}  // namespace muster

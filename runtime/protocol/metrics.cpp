#include "runtime/protocol/metrics.h"

#include <cmath>
#include <cstdio>
#include <limits>

namespace muster {
namespace {

std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

}  // namespace

std::string format_metrics_line(const MetricsLine& line) {
  return "{\"step\":" + std::to_string(line.step) +
         ",\"total_steps\":" + std::to_string(line.total_steps) + ",\"loss\":" + number(line.loss) +
         ",\"lr\":" + number(line.lr) + ",\"grad_norm\":" + number(line.grad_norm) +
         ",\"tokens\":" + std::to_string(line.tokens) +
         ",\"tokens_per_s\":" + number(line.tokens_per_s) + ",\"step_ms\":" + number(line.step_ms) +
         ",\"compute_ms\":" + number(line.compute_ms) +
         ",\"data_wait_ms\":" + number(line.data_wait_ms) +
         ",\"exchange_ms\":" + number(line.exchange_ms) +
         ",\"checkpoint_ms\":" + number(line.checkpoint_ms) + ",\"tflops\":" + number(line.tflops) +
         ",\"mfu_a\":" + number(line.mfu_a) + ",\"mfu_b\":" + number(line.mfu_b) +
         ",\"hfu\":" + number(line.hfu.value_or(std::numeric_limits<double>::quiet_NaN())) +
         ",\"peak_tflops\":" + number(line.peak_tflops) + ",\"peak_origin\":\"" + line.peak_origin +
         "\"}\n";
}

}  // namespace muster

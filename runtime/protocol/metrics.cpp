#include "runtime/protocol/metrics.h"

#include <cmath>
#include <cstdio>

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
         ",\"data_wait_ms\":" + number(line.data_wait_ms) +
         ",\"exchange_ms\":" + number(line.exchange_ms) +
         ",\"checkpoint_ms\":" + number(line.checkpoint_ms) + "}\n";
}

}  // namespace muster

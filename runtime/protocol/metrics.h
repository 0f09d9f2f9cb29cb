// The metrics file: one JSON object per line, appended by rank 0 while a run goes on.
//
// Keys of a line, all numbers: step (finished updates), total_steps, loss (mean nats per token),
// lr, grad_norm (before clipping), tokens (seen since step 0), tokens_per_s, step_ms; and of
// step_ms what rank 0 spent without computing: data_wait_ms, exchange_ms (with the other ranks,
// waiting for them included), checkpoint_ms. Times are means since the line before. A number that
// is not finite is null. A resumed run appends again the steps that it repeats: the last line of a
// step counts. Pure functions, no files.
#pragma once

#include <cstdint>
#include <string>

namespace muster {

struct MetricsLine {
  std::uint64_t step = 0;
  std::uint64_t total_steps = 0;
  double loss = 0;
  double lr = 0;
  double grad_norm = 0;
  std::uint64_t tokens = 0;
  double tokens_per_s = 0;
  double step_ms = 0;
  double data_wait_ms = 0;
  double exchange_ms = 0;
  double checkpoint_ms = 0;
};

// The line with its "\n".
std::string format_metrics_line(const MetricsLine& line);

}  // namespace muster

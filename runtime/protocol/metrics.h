// The metrics file: one JSON object per line, appended by rank 0 while a run goes on.
//
// Keys of a line, all numbers: step (finished updates), total_steps, loss (mean nats per token),
// lr, grad_norm (before clipping), tokens (seen since step 0), tokens_per_s, step_ms; the four
// parts of step_ms, on rank 0: compute_ms, data_wait_ms, exchange_ms (with the other ranks, waiting
// for them included), checkpoint_ms (training stood still); tflops, mfu_a, mfu_b, hfu (null unless
// layers are computed again) and peak_tflops of all ranks together (runtime/report/flops.h), with
// peak_origin, a text. Times and rates are means since the line before. A number that is not finite
// is null. A resumed run appends again the steps that it repeats: the last line of a step counts.
// Pure functions, no files.
#pragma once

#include <cstdint>
#include <optional>
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
  double compute_ms = 0;
  double data_wait_ms = 0;
  double exchange_ms = 0;
  double checkpoint_ms = 0;
  double tflops = 0;
  double mfu_a = 0;  // fractions of the peak
  double mfu_b = 0;
  std::optional<double> hfu = {};
  double peak_tflops = 0;
  std::string peak_origin = {};  // words, no quotes
};

// The line with its "\n".
std::string format_metrics_line(const MetricsLine& line);

}  // namespace muster

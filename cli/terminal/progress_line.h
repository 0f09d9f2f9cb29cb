// The line that shows how far a job has come: a bar, steps, loss, tokens per second, the time left.
// Pure: metrics and width in, one line out that never exceeds the width.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "scheduler/text/clock.h"

namespace muster {

// What the newest metrics line said; absent where it said nothing.
struct ProgressNumbers {
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> total_steps;
  std::optional<double> loss;
  std::optional<double> tokens_per_s;
};

// A metrics line (JSON); anything malformed changes nothing.
void read_metrics_line(std::string_view json, ProgressNumbers& numbers);

// Estimates the time left from the steps seen since the attempt began to make progress.
class StepRate {
 public:
  void saw(std::int64_t step, Time at);
  std::optional<Milliseconds> time_left(const ProgressNumbers& numbers) const;

 private:
  std::optional<std::int64_t> first_step_;
  Time first_at_;
  std::int64_t last_step_ = 0;
  Time last_at_;
};

// `label` says what goes on when no steps are known. At most `width` - 1 columns, so that terminals
// which wrap at the last one stay on the line.
std::string progress_line(const std::string& label, const ProgressNumbers& numbers,
                          std::optional<Milliseconds> time_left, int width);

}  // namespace muster

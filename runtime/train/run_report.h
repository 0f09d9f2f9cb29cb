// What rank 0 tells about a run: lines on stdout, metrics files, TensorBoard events.
//
// One line every --log-every steps, at the first and at the last; rates are averages since the line
// before; utilisations are shares of the peak of all ranks (report/flops.h). The other ranks hold
// no report. All output is flushed at once, so that a killed run keeps what it said.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/protocol/environment.h"
#include "runtime/report/flops.h"
#include "runtime/report/spent_time.h"
#include "runtime/report/tensorboard.h"
#include "runtime/train/step/data_parallel_step.h"
#include "runtime/train/step/options.h"

namespace muster {

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

class RunReport {
 public:
  // Creates the output directory. Throws StartError when it cannot be written. `peak`: of all
  // ranks.
  RunReport(const TrainOptions& options, const RankVariables& variables, const std::string& host,
            std::uint64_t first_step, PeakRate peak);

  // The ranks are others from now on.
  void peak_is(PeakRate peak) { peak_ = std::move(peak); }

  // After every step; `step` counts finished updates. `checkpoint_s` went to checkpoints since the
  // step before.
  void step_done(std::uint64_t step, const StepOutcome& outcome, double checkpoint_s);

  // Two lines about all steps since the first: rates, and where the time went. `checkpoint_s` went
  // to checkpoints since the last step.
  void end(double checkpoint_s);

  // One line of its own, such as "checkpoint s000000050-g1".
  void say(const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;

  double tokens_in(std::uint64_t steps) const {
    return static_cast<double>(steps * options_.batch * options_.shape.context);
  }
  TimeSplit since_last_line(Clock::time_point now);
  void write_metrics(std::uint64_t step, const StepOutcome& outcome, const TimeSplit& mean,
                     double rate);

  const TrainOptions& options_;
  std::vector<std::ofstream> metrics_;
  std::unique_ptr<EventWriter> events_;
  FlopsPerToken flops_;
  PeakRate peak_;
  std::uint64_t first_step_;
  std::uint64_t last_step_;
  TimeSplit whole_;  // of all lines
  // Since the last line.
  std::uint64_t last_line_step_;
  TimeSplit split_;
  Clock::time_point last_line_ = Clock::now();
};

}  // namespace muster

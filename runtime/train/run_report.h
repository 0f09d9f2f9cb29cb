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
#include <string>
#include <vector>

#include "runtime/protocol/environment.h"
#include "runtime/report/flops.h"
#include "runtime/report/peak_rate.h"
#include "runtime/report/spent_time.h"
#include "runtime/report/tensorboard.h"
#include "runtime/train/step/data_parallel_step.h"
#include "runtime/train/step/options.h"

namespace muster {

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

  double tokens_in(std::uint64_t steps) const;
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

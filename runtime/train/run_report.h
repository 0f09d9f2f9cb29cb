// What rank 0 tells about a run: lines on stdout, metrics files, TensorBoard events.
//
// One line every --log-every steps, at the first and at the last; rates are averages since the line
// before. The other ranks hold no report. All output is flushed at once, so that a killed run keeps
// what it said.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "runtime/protocol/environment.h"
#include "runtime/report/tensorboard.h"
#include "runtime/train/data_parallel_step.h"
#include "runtime/train/options.h"

namespace muster {

class RunReport {
 public:
  // Creates the output directory. Throws StartError when it cannot be written.
  RunReport(const TrainOptions& options, const RankVariables& variables, const std::string& host,
            std::uint64_t first_step);

  // After every step; `step` counts finished updates. `checkpoint_s` went to checkpoints since the
  // step before.
  void step_done(std::uint64_t step, const StepOutcome& outcome, double checkpoint_s);

  // One line of its own, such as "checkpoint s000000050-g1".
  void say(const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;

  const TrainOptions& options_;
  std::vector<std::ofstream> metrics_;
  std::unique_ptr<EventWriter> events_;
  std::uint64_t first_step_;
  // Since the last line.
  std::uint64_t last_line_step_;
  double data_wait_s_ = 0;
  double exchange_s_ = 0;
  double checkpoint_s_ = 0;
  Clock::time_point last_line_ = Clock::now();
};

}  // namespace muster

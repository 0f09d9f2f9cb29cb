// A whole run of muster-train: from the options to the exit code.
//
// Every rank calls run_training once. It reads the text, restores or initializes the state, takes
// the steps that are left, saves checkpoints, reports, and writes the weights at the end.
#pragma once

#include <functional>
#include <string>

#include "runtime/communicator/communicator.h"
#include "runtime/protocol/environment.h"
#include "runtime/report/flops.h"
#include "runtime/train/step/options.h"

namespace muster {

inline constexpr int exit_failed = 1;
inline constexpr int exit_taken_over = 93;  // asks a launcher not to start it again

// The exit code: 0, 1 when the weights could not be written, 4 when training diverged, 93 when
// another run has taken over its checkpoint directory, 143 after SIGTERM. Throws StartError before
// the first step; when only some ranks have a reason to, all of them throw it.
// `before_steps` is called once between the start and the first step.
int run_training(const TrainOptions& options, const RankVariables& variables, Communicator& ranks,
                 const std::function<void()>& before_steps = {});

// Says on stderr why, for a launcher; the exit code.
int end_taken_over(const std::string& why);

// The peak of all ranks: what --peak-tflops says of each, or what each measures now, all at once,
// in some 15 ms. For bf16 that is a matrix product, as an FMA loop would not use the units that
// such products use. Collective.
PeakRate run_peak(const TrainOptions& options, Communicator& ranks);

// What all ranks of a run must be given alike, as lines "name=value": ranks that compute different
// things look for a broken computer, or do not notice at all. What a rank may have of its own is
// not in it: paths, --threads (unless bits must be those of any number of ranks), what only one
// rank does.
std::string agreed_text(const TrainOptions& options);

// Throws StartError, on all ranks alike, when the options differ between ranks, or --zero and its
// companions contradict each other. Collective.
void check_sharing_options(const TrainOptions& options, Communicator& ranks);

}  // namespace muster

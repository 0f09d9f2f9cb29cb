// A whole run of muster-train: from the options to the exit code.
//
// Every rank calls run_training once. It reads the text, restores or initializes the state, takes
// the steps that are left, saves checkpoints, reports, and writes the weights at the end.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/communicator/communicator.h"
#include "runtime/protocol/environment.h"
#include "runtime/train/options.h"

namespace muster {

// So many steps in a row without an update: training has diverged.
inline constexpr std::uint64_t skipped_steps_limit = 10;
inline constexpr int exit_diverged = 1;

// The exit code: 0, 1 when training diverged, 143 after SIGTERM. Throws StartError before the first
// step; when only some ranks have a reason to, all of them throw it.
// `before_steps` is called once between the start and the first step.
int run_training(const TrainOptions& options, const RankVariables& variables, Communicator& ranks,
                 const std::function<void()>& before_steps = {});

}  // namespace muster

// What all ranks of a run must be given alike, and which of it they were not.
//
// Ranks that compute different things notice only that their numbers differ, and look for a broken
// computer; or do not notice at all. So they compare before the first step.
#pragma once

#include <string>

#include "runtime/communicator/communicator.h"
#include "runtime/communicator/given_options.h"
#include "runtime/train/step/options.h"

namespace muster {

// Lines "name=value". What a rank may have of its own is not in it: paths, --threads (unless bits
// must be those of any number of ranks), what only one rank does.
std::string agreed_text(const TrainOptions& options);

// Throws StartError, on all ranks alike, when the options differ between ranks, or --zero and its
// companions contradict each other. Collective.
void check_sharing_options(const TrainOptions& options, Communicator& ranks);

}  // namespace muster

// How ranks share the state must fit together before the first of them computes.
#pragma once

#include "runtime/communicator/communicator.h"
#include "runtime/train/step/options.h"

namespace muster {

// Throws StartError, on all ranks alike, when the options differ between ranks (agreed_options.h),
// or --zero and its companions contradict each other. Collective.
void check_sharing_options(const TrainOptions& options, Communicator& ranks);

}  // namespace muster

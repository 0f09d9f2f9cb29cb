// How ranks share the state must fit together before the first of them computes.
#pragma once

#include "runtime/communicator/communicator.h"
#include "runtime/train/options.h"

namespace muster {

// Throws StartError, on all ranks alike, when --zero and its companions contradict each other or
// differ between ranks, which would then wait for each other for ever. Collective.
void check_sharing_options(const TrainOptions& options, Communicator& ranks);

}  // namespace muster

// The weights at the end of a run, as rank 0 writes them for others.
//
// Where rank 0 does not hold all of them it gathers them from their owners, some MiB at a time.
// Collective; every rank gets the same outcome.
#pragma once

#include <string>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/communicator/communicator.h"
#include "runtime/train/step/training_state.h"

namespace muster {

// Writes directory/model.safetensors; the directory is that of rank 0. Weights that are not finite
// are a fault.
Checked<NoValue> write_final_weights(const std::string& directory, const FlatSpace& space,
                                     const TrainingState& state, Communicator& ranks);

}  // namespace muster

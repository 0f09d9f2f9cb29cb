// The peak of a whole run's processors, for its utilisation.
#pragma once

#include "runtime/communicator/communicator.h"
#include "runtime/report/peak_rate.h"
#include "runtime/train/step/options.h"

namespace muster {

// The sum over all ranks: what --peak-tflops says of each, or what each measures now, all at once,
// in some 15 ms. For bf16 that is a matrix product, as an FMA loop would not use the units that
// such products use. Collective.
PeakRate run_peak(const TrainOptions& options, Communicator& ranks);

}  // namespace muster

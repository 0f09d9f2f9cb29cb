// What an all-reduce between the ranks of a run takes, as a training step makes it: every rank gets
// its part of all, adds them up in the order of the ranks, and gives the sums to all.
//
// All ranks call it alike. Rank 0 prints, one line for each figure, "metric - value", or
// "metric - error TEXT" when sums are wrong or there is one rank only; the metrics are those of the
// health check perf.collective. Throws what the communicator throws.
#pragma once

#include <cstddef>

#include "runtime/communicator/communicator.h"
#include "scheduler/text/fields.h"

namespace muster {

struct AllreduceTime {
  double seconds = 0;  // of one, median over the rounds, the slowest rank's
  bool is_right = false;
  MUSTER_FIELDS(seconds, is_right)
};

AllreduceTime time_allreduce(Communicator& ranks, std::size_t bytes, int rounds);

// What each link of a ring would carry: 2 (n - 1) / n x bytes / time.
double bus_gb_per_s(std::size_t ranks, std::size_t bytes, double seconds);

void probe_allreduce(Communicator& ranks);

}  // namespace muster

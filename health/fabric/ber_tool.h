// Measures the bit error rates of a fabric with ibdiagnet: clears the counters of all its ports,
// lets the load go on for a while, and asks. Blocks for as long; each run of the tool has a limit,
// after which it is killed. For processes of one thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "health/benchmark/tools/infiniband.h"
#include "health/fabric/ber.h"

namespace muster {

struct BerToolOptions {
  std::optional<HcaPort> port;  // of this host, by which it looks; nothing: the tool's choice
  std::chrono::milliseconds limit = std::chrono::minutes(10);  // of each run
  std::function<void()> wait;                                  // for the load's time
};

BerReading measure_ber(const BerToolOptions& options);

}  // namespace muster

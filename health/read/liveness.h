// Whether the helper that asks the driver is alive.
#pragma once

#include <optional>

#include "scheduler/text/clock.h"

namespace muster {

struct HelperFacts {
  // Since it was killed without the kernel giving it up, which a hanging driver keeps it from.
  std::optional<Milliseconds> unreaped;
  int restarts = 0;  // in the latest hour
};

}  // namespace muster

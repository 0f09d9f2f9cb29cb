// The units in which the parts of the world count virtual time.
#pragma once

#include "scheduler/text/clock.h"

namespace muster::sim {

inline constexpr Milliseconds second{1'000};
inline constexpr Milliseconds minute{60'000};

}  // namespace muster::sim

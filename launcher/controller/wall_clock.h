// The controller's only look at the wall clock: what stamps records and is given to `decide`.
#pragma once

#include "scheduler/model/clock.h"

namespace muster {

inline Time wall_now() {
  return std::chrono::time_point_cast<Milliseconds>(std::chrono::system_clock::now());
}

}  // namespace muster

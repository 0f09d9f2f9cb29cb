// Microseconds since the machine booted, sleep included: the clock for leases and for the age of an
// event. The same in every process of the machine, and across restarts of the agent.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace muster {

using BootTime = std::chrono::microseconds;

inline BootTime boot_time() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) +
         std::chrono::duration_cast<BootTime>(std::chrono::nanoseconds(now.tv_nsec));
}

inline std::int64_t boot_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(boot_time()).count();
}

}  // namespace muster

// Microseconds since the machine booted as its oscillator counts them: CLOCK_MONOTONIC_RAW, which
// nobody sets and no time service speeds up or slows down. What exits are stamped with: two
// machines' clocks of this kind drift apart by their oscillators' tolerance and by nothing else.
// The same in every process of the machine.
#pragma once

#include <time.h>

#include <chrono>

namespace muster {

using RawTime = std::chrono::microseconds;

inline RawTime raw_time() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return std::chrono::seconds(now.tv_sec) +
         std::chrono::duration_cast<RawTime>(std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace muster

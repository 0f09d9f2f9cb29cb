// How far the clocks of ranks are apart.
//
// Rank 0 sends a time to a rank, which answers with its own. The answer was given between sending
// and receiving, so the middle of both is off by half the round trip at most (Cristian 1989); of
// several tries the quickest counts. Clocks of one host agree by themselves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/communicator/communicator.h"

namespace muster {

struct RankClock {
  std::int64_t ahead_ns = 0;  // of the other clock
  std::int64_t error_ns = 0;  // at most
};

struct ClockAnswer {
  std::int64_t sent_ns = 0;
  std::int64_t answered_ns = 0;  // on the other clock
  std::int64_t received_ns = 0;
};

// `answers` holds at least one.
RankClock offset_of(std::span<const ClockAnswer> answers);

// By rank, on rank 0; nothing on the others. Steady clocks are compared. Collective.
std::vector<RankClock> measure_clock_offsets(Communicator& ranks);

}  // namespace muster

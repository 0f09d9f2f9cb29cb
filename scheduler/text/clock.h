// Time as an input. Wall-clock milliseconds: what the journal stores and what `decide` is given.
#pragma once

#include <chrono>
#include <cstdint>

namespace muster {

using Milliseconds = std::chrono::milliseconds;
using Seconds = std::chrono::seconds;
using Time = std::chrono::time_point<std::chrono::system_clock, Milliseconds>;

inline std::int64_t to_ms(Time time) { return time.time_since_epoch().count(); }
inline Time from_ms(std::int64_t ms) { return Time{Milliseconds{ms}}; }

}  // namespace muster

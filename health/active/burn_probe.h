// Full load with an eye on heat (perf.burn): all processors and all GPUs at work for minutes, while
// once a second is looked whether anything slows them down. Prints what it finds at the end; until
// then it may be killed at any time, and takes all load with it.
//
// What was watched, a line or several for each: how often the kernel saw processors throttle, by
// how much their rate fell and that of GPUs, for how long GPUs lowered their clocks, Xids. What
// could not be watched is unknown, each for itself.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "health/active/burn_rate.h"

namespace muster {

inline constexpr const char* burn_probe = "burn";  // the word for it
inline constexpr const char* burn_throttle_metric = "burn_throttle_events";
inline constexpr const char* burn_rate_metric = "burn_slow_windows";
inline constexpr const char* burn_xid_metric = "burn_xids";

struct BurnOptions {
  std::chrono::milliseconds time = std::chrono::minutes(burn_minutes_usual);
  int gpus = 0;            // that should be there; 0: none is put to work
  std::string root = "/";  // of what the kernel tells: /sys, /dev/kmsg
  std::vector<int> processors;
};

// For processes of one thread.
void probe_burn(const BurnOptions& options);

}  // namespace muster

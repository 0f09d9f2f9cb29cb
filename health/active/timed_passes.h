// The same work on every processor at the same time, again and again, each time measured from the
// moment that all begin until the last is done. Threads live only during the call; the process is a
// probe's own.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

// Those that this process may use, by their numbers.
std::vector<int> usable_processors();

// Those that the node has running; those that this process may use where the system does not say.
std::vector<int> online_processors();

// This thread runs there and nowhere else from now on. False: the system does not let it.
bool use_processor(int processor);

struct TimedWork {
  std::function<void(std::size_t worker)> prepare;  // once, not measured
  std::function<void(std::size_t worker)> pass;
};

struct PassLimits {
  std::chrono::milliseconds time{5000};  // no pass begins that would likely end later
  std::size_t least = 3;                 // passes in any case
  std::size_t most = 10'000;
};

// Seconds of each pass. Worker i runs on processors[i] alone, where the system lets it. The work
// must not throw. An error when there can be no thread.
Result<std::vector<double>> time_passes(const std::vector<int>& processors, const TimedWork& work,
                                        const PassLimits& limits);

}  // namespace muster

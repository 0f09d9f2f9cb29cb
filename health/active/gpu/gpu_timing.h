// The same work on a stream again and again, timed by the GPU's own clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "health/active/gpu/cuda_resource.h"

namespace muster {

inline constexpr int gpu_rounds_least = 5;
inline constexpr int gpu_warm_up_rounds = 2;

inline double median_seconds(std::vector<double> seconds) {
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

// Median seconds of one `work(stream)`, over about this time.
template <class Work>
double seconds_of_rounds(const GpuStream& stream, std::chrono::milliseconds time, Work work) {
  const GpuMark begin;
  const GpuMark end;
  for (int round = 0; round < gpu_warm_up_rounds; ++round) work(stream.get());
  stream.wait();
  const auto until = std::chrono::steady_clock::now() + time;
  std::vector<double> seconds;
  while (static_cast<int>(seconds.size()) < gpu_rounds_least ||
         std::chrono::steady_clock::now() < until) {
    begin.record(stream);
    work(stream.get());
    end.record(stream);
    seconds.push_back(end.seconds_since(begin));
  }
  return median_seconds(std::move(seconds));
}

}  // namespace muster

// For how long the hardware of a GPU slowed its clocks down, of answers that are asked for once a
// second. One look proves nothing: an answer counts with as many beside it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "health/model/performance.h"
#include "health/nvml/clock_reader.h"

namespace muster {

inline constexpr const char* burn_clock_metric = "burn_slowed_clocks_s";

inline constexpr std::size_t slowed_answers_least = 3;

class ClockTally {
 public:
  void add(const GpuClocks& clocks);

  // Of each GPU that answered: the seconds. Unknown with fewer answers than nine in ten of
  // `expected`.
  std::vector<PerformanceSample> samples(std::size_t expected) const;

 private:
  struct Gpu {
    std::size_t answers = 0;
    std::size_t slowed = 0;  // of those that count
    std::size_t in_row = 0;
    std::uint64_t reasons = 0;  // of those that count
    std::uint64_t reasons_in_row = 0;
    std::optional<int> hottest;
    int last_rc = 0;
  };
  static PerformanceSample sample(int number, const Gpu& gpu, std::size_t expected);

  std::map<int, Gpu> gpus_;
};

// How a watch over GPUs went.
struct ClocksWatched {
  std::size_t looks = 0;  // in as many seconds
  int gpus = 0;           // that should be there
  bool had_load = false;  // else their clocks say nothing
  std::string error;      // why nothing more was told; empty: all was
};
// Of each GPU, and of the node what cannot be told of each.
std::vector<PerformanceSample> clock_samples(const ClockTally& tally, const ClocksWatched& watched);

}  // namespace muster

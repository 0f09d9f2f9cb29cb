// How large the all-reduces of a measurement are and how many, and what their time says. Pure.
#pragma once

#include <chrono>
#include <cstdint>

namespace muster {

inline constexpr int allreduce_rounds_least = 5;
inline constexpr int allreduce_rounds_most = 2'000;
// Large enough to tell how long larger ones take, small enough for Ethernet.
inline constexpr std::uint64_t allreduce_trial_bytes = 64ull << 20;

struct AllreduceRounds {
  std::uint64_t bytes = 0;
  int count = 0;
};
// As large as fits five times into the time, between the trial's size and `most`, and so often that
// it takes about the time. `trial`: of one all-reduce of `trial_bytes`.
AllreduceRounds allreduce_rounds(std::uint64_t most, std::uint64_t trial_bytes,
                                 std::chrono::nanoseconds trial, std::chrono::milliseconds time);

// What all_reduce_perf calls bus bandwidth: 2 (n - 1) / n of the bytes have to come into each rank
// and leave it, however many ranks there are (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md).
double allreduce_bus_gb_per_s(int ranks, std::uint64_t bytes, std::chrono::nanoseconds took);

}  // namespace muster

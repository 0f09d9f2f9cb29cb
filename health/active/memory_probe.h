// Memory bandwidth as STREAM's triad measures it: a = b + s c over doubles, all processors, each on
// its part of arrays that it touched first, so that they lie near it. 24 bytes are counted for an
// element. What is written goes past the caches where the processor can: else a fourth of the
// traffic would be lines that are read only to be overwritten.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

// Three arrays of this size, or else figures of the caches.
inline constexpr std::uint64_t stream_times_cache = 4;
// When the kernel does not say how large the caches are.
inline constexpr std::uint64_t stream_array_bytes_usual = 512ull << 20;
// What is left to the node: the arrays take at most this part of its available memory.
inline constexpr double stream_memory_share = 0.5;

struct MemoryProbeOptions {
  std::chrono::milliseconds time{5000};
  std::optional<std::uint64_t> array_bytes;  // of one; nothing: by the caches
  std::vector<int> processors;
};

// The best pass. An error when memory is short, or when the arrays do not hold what was computed.
Result<double> triad_mb_per_s(const MemoryProbeOptions& options);

}  // namespace muster

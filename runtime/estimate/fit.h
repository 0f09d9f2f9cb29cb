// Whether a rank fits the memory that there is for it, and what would make it fit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/estimate/rank_memory.h"
#include "runtime/estimate/step_time.h"

namespace muster {

// For one rank, bytes. Where the device is the host, only the first counts.
struct MemoryLimit {
  std::uint64_t device = 0;
  std::optional<std::uint64_t> host;
};

bool fits(const RankMemory& memory, const MemoryLimit& limit, RankKind kind);

struct FittingChange {
  std::string what;  // "--zero 3, --recompute"
  TrainOptions options;
  RankLayout layout;
  RankMemory memory;
  double cost = 1;  // rank-seconds per token, as a multiple of those without the change
};

// Of higher stages, recomputation, smaller micro-batches and more ranks, and of them together: the
// cheapest `most` that fit, none of which does more than another one that fits too.
std::vector<FittingChange> cheapest_changes(const TrainOptions& options, const RankLayout& layout,
                                            const MemoryLimit& limit, const RankRates& rates,
                                            std::size_t most = 3);

}  // namespace muster

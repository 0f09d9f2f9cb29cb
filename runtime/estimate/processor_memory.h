// The memory of one rank of muster-train on processors: buffer by buffer, as the run allocates
// them. Pure.
#pragma once

#include "runtime/estimate/rank_memory.h"

namespace muster {

RankMemory processor_rank_memory(const TrainOptions& options, const RankLayout& layout);

}  // namespace muster

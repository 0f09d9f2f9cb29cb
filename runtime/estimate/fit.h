// How long a step takes, whether a rank fits the memory that there is for it, and what would make
// it fit. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/estimate/rank_memory.h"
#include "runtime/report/flops.h"

namespace muster {

// A step takes the arithmetic of the model, and sending the bytes of ranks.
//
// Bytes per rank and step, by stage, of P parameters, k micro-batches per rank, e bytes per number
// (ZeRO, arXiv 1910.02054, section 7; gradients of stage 2 leave with every micro-batch):
//   0  2eP    1  2eP    2  ePk + eP    3  3ePk       times (N - 1) / N of N ranks
// On processors they leave with the last one: 2  2eP    3  2ePk + eP.
// Computing and sending overlap as far as the run lets them: the step lies between the longer of
// both and their sum.

// Of one rank.
struct RankRates {
  double peak_flops = 0;        // per second
  double share_of_peak = 0.5;   // at which it computes, assumed
  double link_bytes_per_s = 0;  // 0: not known
};

struct StepTime {
  double tokens = 0;  // of all ranks
  double flops = 0;   // of the rank with most sequences, recomputation included
  double bytes = 0;   // that one rank sends
  double compute_s = 0;
  double communication_s = 0;

  double hidden_s() const { return compute_s > communication_s ? compute_s : communication_s; }
  double exposed_s() const { return compute_s + communication_s; }
};

// Throws StartError when no run can have the options.
StepTime step_time(const TrainOptions& options, const RankLayout& layout, const RankRates& rates);

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

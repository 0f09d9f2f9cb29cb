// How long a step takes, from the arithmetic of the model and the bytes that ranks send.
//
// Bytes per rank and step, by stage, of P parameters, k micro-batches per rank, e bytes per number
// (ZeRO, arXiv 1910.02054, section 7; gradients of stage 2 leave with every micro-batch):
//   0  2eP    1  2eP    2  ePk + eP    3  3ePk       times (N - 1) / N of N ranks
// On processors they leave with the last one: 2  2eP    3  2ePk + eP.
// Computing and sending overlap as far as the run lets them: the step lies between the longer of
// both and their sum. Pure.
#pragma once

#include "runtime/estimate/rank_memory.h"
#include "runtime/report/flops.h"

namespace muster {

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

}  // namespace muster

// The arithmetic of a GPT's training step, and how much of a peak it is.
//
// Symbols: P parameters that matrix products read (the head once), L layers, C width, T context,
// V vocabulary. FLOPs per token, forward and backward:
//   A   6P + 6LCT                          the causal half of attention only; the headline
//   A'  6P + 12LCT                         without the causal discount (PaLM, arXiv 2204.02311)
//   B   72LC^2 (1 + T/(6C) + V/(12LC))     model FLOPs of Megatron (arXiv 2104.04473, without its
//                                          recomputation)
//   H   96LC^2 (1 + T/(6C) + V/(16LC))     hardware FLOPs where every layer is computed again in
//                                          its backward (arXiv 2104.04473, formula 3)
// MFU is A or B, and HFU is H, over the peak. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/model/gpt.h"

namespace muster {

struct FlopsPerToken {
  double causal = 0;      // A
  double megatron = 0;    // B
  double recomputed = 0;  // H
};

// Elements of all parameters, without padding.
std::uint64_t parameter_count(const GptShape& shape);

FlopsPerToken flops_per_token(const GptShape& shape);

// Shares are fractions of the peak.
struct Utilisation {
  double tflops = 0;  // TFLOP/s by formula A
  double mfu_a = 0;
  double mfu_b = 0;
  std::optional<double> hfu;  // where layers are recomputed
};

// `peak_flops` and `tokens_per_s` are those of all ranks together.
Utilisation utilisation_of(const FlopsPerToken& flops, double tokens_per_s, double peak_flops,
                           bool recomputes);

// The peak that a utilisation is a share of, and where the figure comes from.
struct PeakRate {
  double flops = 0;    // per second
  std::string origin;  // "given", "measured by an FMA loop", ...
};

// fp32 multiply-adds in the registers of `threads` OpenMP threads at once, in the widest vectors
// that the processor has: what no matrix product can exceed. Takes about 12 ms.
PeakRate measure_fma_peak(int threads);

}  // namespace muster

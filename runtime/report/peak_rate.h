// The peak that a utilisation is a share of, and where the figure comes from.
#pragma once

#include <string>

namespace muster {

struct PeakRate {
  double flops = 0;    // per second
  std::string origin;  // "given", "measured by an FMA loop", ...
};

// fp32 multiply-adds in the registers of `threads` OpenMP threads at once, in the widest vectors
// that the processor has: what no matrix product can exceed. Takes about 12 ms.
PeakRate measure_fma_peak(int threads);

}  // namespace muster

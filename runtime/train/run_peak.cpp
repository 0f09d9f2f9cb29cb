#include "runtime/train/run_peak.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "runtime/layer/gemm.h"
#include "runtime/memory/bf16.h"
#include "runtime/report/spent_time.h"

namespace muster {
namespace {

constexpr std::size_t probe_size = 512;  // operands and result fit the cache of a core
constexpr double probe_s = 0.01;

PeakRate measure_bf16_peak() {
  const std::size_t n = probe_size;
  const std::vector<Bf16> a(n * n, to_bf16(0.5f));
  std::vector<float> c(n * n);
  const GemmShape shape{.m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n};
  gemm(shape, a.data(), a.data(), c.data());  // compiles it
  double best_s = 1;
  for (const Stopwatch whole; whole.seconds() < probe_s;) {
    const Stopwatch one;
    gemm(shape, a.data(), a.data(), c.data());
    best_s = std::min(best_s, one.seconds());
  }
  return {2.0 * static_cast<double>(n * n * n) / best_s, "measured by a bf16 matrix product"};
}

PeakRate own_peak(const TrainOptions& options) {
  if (options.peak_tflops) return {*options.peak_tflops * 1e12, "given"};
  if (options.model.precision == Precision::bf16) return measure_bf16_peak();
  return measure_fma_peak(options.threads);
}

}  // namespace

PeakRate run_peak(const TrainOptions& options, Communicator& ranks) {
  PeakRate peak = own_peak(options);
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", peak.flops);
  peak.flops = 0;
  for (const std::string& other : ranks.gather_texts(text)) {
    peak.flops += std::strtod(other.c_str(), nullptr);
  }
  return peak;
}

}  // namespace muster

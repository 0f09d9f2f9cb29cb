#include "runtime/report/flops.h"

#include <algorithm>

#include "runtime/report/spent_time.h"

namespace muster {
namespace {

constexpr double measured_s = 0.01;
constexpr int rounds = 20000;
// Ten chains of sums keep two units with a latency of four busy, and fit 16 registers.
constexpr int chains = 10;

template <int bytes>
struct Vector {
  typedef float Lanes __attribute__((vector_size(bytes)));
};

// Sums that tend to 1, so that they stay normal numbers; returns one, for the loop to matter.
template <int bytes>
[[gnu::always_inline]] inline float multiply_and_add(float factor, float summand) {
  using Wide = typename Vector<bytes>::Lanes;
  const Wide a = Wide{} + factor;
  const Wide b = Wide{} + summand;
  Wide sums[chains];
#pragma GCC unroll 10
  for (int i = 0; i < chains; ++i) sums[i] = Wide{} + static_cast<float>(i);
  for (int round = 0; round < rounds; ++round) {
#pragma GCC unroll 10
    for (int i = 0; i < chains; ++i) sums[i] = sums[i] * a + b;
  }
  Wide all{};
#pragma GCC unroll 10
  for (int i = 0; i < chains; ++i) all += sums[i];
  return all[0];
}

float loop_default(float factor, float summand) {
  return multiply_and_add<16>(factor, summand);
}
constexpr int default_lanes = 4;

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] float loop_avx2(float factor, float summand) {
  return multiply_and_add<32>(factor, summand);
}
[[gnu::target("avx512f,avx2,fma,prefer-vector-width=512")]] float loop_avx512(float factor,
                                                                              float summand) {
  return multiply_and_add<64>(factor, summand);
}
#endif

struct Loop {
  float (*run)(float factor, float summand);
  int lanes;
};

Loop widest_loop() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {loop_avx512, 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {loop_avx2, 8};
#endif
  return {loop_default, default_lanes};
}

// The best of many short runs: others may take the core meanwhile.
double own_rate() {
  const Loop loop = widest_loop();
  const double flops = 2.0 * rounds * chains * loop.lanes;
  volatile float factor = 0.5f;
  volatile float sink = 0;
  double best_s = 1;
  for (const Stopwatch whole; whole.seconds() < measured_s;) {
    const Stopwatch one;
    sink = loop.run(factor, 0.5f);
    best_s = std::min(best_s, one.seconds());
  }
  static_cast<void>(sink);
  return flops / best_s;
}

}  // namespace

PeakRate measure_fma_peak(int threads) {
  double sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  sum += own_rate();
  return {sum, "measured by an FMA loop"};
}

}  // namespace muster

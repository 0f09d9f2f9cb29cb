#include <cmath>
#include <vector>

#include "runtime/layer/cross_entropy.h"
#include "runtime/layer/parallel.h"
#include "runtime/memory/bf16.h"
#include "runtime/memory/vector_loops.h"

namespace muster {
namespace {

// The softmax of one row, minus 1 at the target; returns the row's loss.
template <class Operand>
MUSTER_VECTOR_CLONES double softmax_row(float* logits, std::size_t vocabulary, std::size_t target,
                                        Operand* gradient) {
  const double target_logit = logits[target];
  float highest = logits[0];
  for (std::size_t j = 1; j < vocabulary; ++j) {
    highest = highest < logits[j] ? logits[j] : highest;
  }
  for (std::size_t j = 0; j < vocabulary; ++j) logits[j] = vector_exp(logits[j] - highest);
  const float* const row = logits;
  const float sum = lane_sum<float>(vocabulary, [=](std::size_t j) { return row[j]; });
  const float inverse = 1.0f / sum;
  const float at_target = logits[target] * inverse - 1.0f;
  for (std::size_t j = 0; j < vocabulary; ++j) {
    gradient[j] = to_operand<Operand>(logits[j] * inverse);
  }
  gradient[target] = to_operand<Operand>(at_target);
  return std::log(double{sum}) + double{highest} - target_logit;
}

}  // namespace

template <class Operand>
double cross_entropy(std::span<const Token> targets, std::size_t vocabulary,
                     std::span<float> logits, std::span<Operand> gradient) {
  thread_local std::vector<double> losses;
  losses.resize(targets.size());
  double* const row_losses = losses.data();
  for_ranges(targets.size(), 4, [&](std::size_t lo, std::size_t hi) {
    for (std::size_t row = lo; row < hi; ++row) {
      row_losses[row] = softmax_row(&logits[row * vocabulary], vocabulary, targets[row],
                                    &gradient[row * vocabulary]);
    }
  });
  double loss = 0;
  for (const double row : losses) loss += row;
  return loss;
}

template double cross_entropy(std::span<const Token>, std::size_t, std::span<float>,
                              std::span<float>);
template double cross_entropy(std::span<const Token>, std::size_t, std::span<float>,
                              std::span<Bf16>);

}  // namespace muster

#include <algorithm>
#include <cmath>

#include "runtime/layer/cross_entropy/cross_entropy.h"
#include "runtime/layer/vector_loops.h"

namespace muster {
namespace {

// Softmax of one row in place; returns log(sum e^(l - max)) + max, to be compared with the target's
// logit.
MUSTER_VECTOR_CLONES
double softmax_row(float* logits, std::size_t vocabulary) {
  float highest = logits[0];
  for (std::size_t j = 1; j < vocabulary; ++j) highest = std::max(highest, logits[j]);
  for (std::size_t j = 0; j < vocabulary; ++j) logits[j] = vector_exp(logits[j] - highest);
  const float* row = logits;
  const float sum = lane_sum<float>(vocabulary, [=](std::size_t j) { return row[j]; });
  const float inverse = 1.0f / sum;
  for (std::size_t j = 0; j < vocabulary; ++j) logits[j] *= inverse;
  return std::log(double{sum}) + double{highest};
}

}  // namespace

double cross_entropy(std::span<const Token> targets, std::size_t vocabulary,
                     std::span<float> logits) {
  double loss = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    float* values = &logits[row * vocabulary];
    const double target_logit = values[targets[row]];
    loss += softmax_row(values, vocabulary) - target_logit;
    values[targets[row]] -= 1.0f;
  }
  return loss;
}

}  // namespace muster

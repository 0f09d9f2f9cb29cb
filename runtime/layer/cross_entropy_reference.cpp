#include <cmath>

#include "runtime/layer/cross_entropy.h"

namespace muster {

double cross_entropy_reference(std::span<const Token> targets, std::size_t vocabulary,
                               std::span<double> logits) {
  double loss = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    double* values = &logits[row * vocabulary];
    double sum = 0;
    for (std::size_t j = 0; j < vocabulary; ++j) sum += std::exp(values[j]);
    loss += std::log(sum) - values[targets[row]];
    for (std::size_t j = 0; j < vocabulary; ++j) values[j] = std::exp(values[j]) / sum;
    values[targets[row]] -= 1;
  }
  return loss;
}

}  // namespace muster

#include <cmath>

#include "runtime/layer/cross_entropy/cross_entropy.h"
#include "runtime/layer/embedding/embedding.h"

namespace muster {

double cross_entropy_reference(std::span<const std::uint8_t> targets, std::span<double> logits) {
  double loss = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    double* values = &logits[row * byte_vocabulary];
    double sum = 0;
    for (std::size_t j = 0; j < byte_vocabulary; ++j) sum += std::exp(values[j]);
    loss += std::log(sum) - values[targets[row]];
    for (std::size_t j = 0; j < byte_vocabulary; ++j) values[j] = std::exp(values[j]) / sum;
    values[targets[row]] -= 1;
  }
  return loss;
}

}  // namespace muster

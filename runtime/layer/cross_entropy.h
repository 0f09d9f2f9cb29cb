// Softmax and cross-entropy, forward and backward in one pass.
//
//   loss = sum over rows of log(sum_j e^(l_j - max)) - (l_target - max)        in nats
//   dlogits_j = e^(l_j - max) / sum_k e^(l_k - max) - [j = target]
//
// Nothing is divided by the number of tokens here: gradients and losses are summed over the global
// batch and divided once, after the reduction. logits [rows, vocabulary] with rows =
// targets.size(). Losses add up in fp64 in order of rows.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/layer/embedding.h"

namespace muster {

// The gradient is written as operands of a matrix product, float or Bf16; `logits` are lost. A
// float gradient may be the same memory as the logits.
template <class Operand>
double cross_entropy(std::span<const Token> targets, std::size_t vocabulary,
                     std::span<float> logits, std::span<Operand> gradient);

}  // namespace muster

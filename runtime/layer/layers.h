// Linear layer.
//
//   forward    y = x w + b
//   backward   dx = dy w^T,   dw += x^T dy,   db += sum over rows of dy
//
// x, dx [rows, in]; w, dw [in, out]; b, db [out]; y, dy [rows, out]; row-major. dw and db
// accumulate, so that the micro-batches of a leaf add up (dw not when `fresh`); sums over rows run
// from the first row to the last. What matrix products read is float or Bf16, what they write is
// float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/memory/bf16.h"

namespace muster {

struct LinearShape {
  std::size_t rows = 0;
  std::size_t in = 0;
  std::size_t out = 0;
  bool fresh = false;  // dw is overwritten, for the first micro-batch
};

template <class Operand>
void linear_forward(const LinearShape& shape, std::span<const Operand> x,
                    std::span<const Operand> w, std::span<const float> b, std::span<float> y);

template <class Operand>
void linear_backward(const LinearShape& shape, std::span<const Operand> x,
                     std::span<const Operand> w, std::span<const Operand> dy, std::span<float> dx,
                     std::span<float> dw, std::span<float> db);

// Token and position embeddings.
//
//   forward    x[b,t,:] = tokens_table[token[b,t],:] + positions_table[t,:]
//   backward   dtokens_table[token[b,t],:] += dx[b,t,:],   dpositions_table[t,:] += dx[b,t,:]
//
// tokens [batch, context] stand `stride` apart per sequence; x, dx [batch, context, width]; tables
// [vocabulary, width] and [context, width]. Rows are added in order of (b, t).

using Token = std::uint32_t;

struct EmbeddingShape {
  std::size_t batch = 0;
  std::size_t context = 0;
  std::size_t width = 0;
  std::size_t stride = 0;  // tokens from one sequence to the next
};

void embedding_forward(const EmbeddingShape& shape, std::span<const Token> tokens,
                       std::span<const float> token_table, std::span<const float> position_table,
                       std::span<float> x);

void embedding_backward(const EmbeddingShape& shape, std::span<const Token> tokens,
                        std::span<const float> dx, std::span<float> dtoken_table,
                        std::span<float> dposition_table);

// Layer normalization over the last dimension (Ba, Kiros, Hinton 2016), epsilon 1e-5.
//
//   forward    mean = sum x / C,  rstd = 1 / sqrt(sum (x - mean)^2 / C + eps)
//              n = (x - mean) rstd,  y = n gamma + beta
//   backward   g = dy gamma,  dx += rstd (g - sum g / C - n sum(g n) / C)
//              dgamma += sum over rows of dy n,  dbeta += sum over rows of dy
//
// x, y, dy, dx [rows, width]; gamma, beta, dgamma, dbeta [width]; mean, rstd [rows], kept for
// backward. dx accumulates, because the residual stream's gradient is already there. Sums over the
// width are kept in 16 lanes (vector_loops.h), sums over rows run from first to last.

inline constexpr double layer_norm_epsilon = 1e-5;

struct LayerNormShape {
  std::size_t rows = 0;
  std::size_t width = 0;
};

// y is written as operands of a matrix product, float or Bf16.
template <class Operand>
void layer_norm_forward(const LayerNormShape& shape, std::span<const float> x,
                        std::span<const float> gamma, std::span<const float> beta,
                        std::span<Operand> y, std::span<float> mean, std::span<float> rstd);

void layer_norm_backward(const LayerNormShape& shape, std::span<const float> x,
                         std::span<const float> gamma, std::span<const float> mean,
                         std::span<const float> rstd, std::span<const float> dy,
                         std::span<float> dx, std::span<float> dgamma, std::span<float> dbeta);

// GELU in its tanh form (Hendrycks, Gimpel 2016, equation 2).
//
//   u = sqrt(2/pi) (x + 0.044715 x^3),   u' = sqrt(2/pi) (1 + 3 * 0.044715 x^2)
//
//   forward    y = x/2 (1 + tanh u) = x s,   s = 1 / (1 + e^(-2u))
//   backward   dx = dy (s + x s (1 - s) 2 u')
//
// The logistic form has no cancellation for negative x. x, y, dy, dx hold the same number of
// elements; y and dx are written as operands of matrix products, float or Bf16; a float dx may be
// the same memory as dy.

template <class Operand>
void gelu_forward(std::span<const float> x, std::span<Operand> y);
template <class Operand>
void gelu_backward(std::span<const float> x, std::span<const float> dy, std::span<Operand> dx);

// Softmax and cross-entropy, forward and backward in one pass.
//
//   loss = sum over rows of log(sum_j e^(l_j - max)) - (l_target - max)        in nats
//   dlogits_j = e^(l_j - max) / sum_k e^(l_k - max) - [j = target]
//
// Nothing is divided by the number of tokens here: gradients and losses are summed over the global
// batch and divided once, after the reduction. logits [rows, vocabulary] with rows =
// targets.size(). Losses add up in fp64 in order of rows.

// The gradient is written as operands of a matrix product, float or Bf16; `logits` are lost. A
// float gradient may be the same memory as the logits.
template <class Operand>
double cross_entropy(std::span<const Token> targets, std::size_t vocabulary,
                     std::span<float> logits, std::span<Operand> gradient);

}  // namespace muster

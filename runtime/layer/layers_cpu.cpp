#include "runtime/layer/layers.h"

#include <cmath>
#include <vector>

#include "runtime/layer/gemm.h"
#include "runtime/layer/parallel.h"
#include "runtime/memory/bf16.h"
#include "runtime/memory/vector_loops.h"

namespace muster {
namespace {

constexpr std::size_t grain_columns = 64;

// Columns [lo, hi) of db.
template <class Operand>
MUSTER_VECTOR_CLONES void add_rows(const Operand* dy, const LinearShape& shape, std::size_t lo,
                                   std::size_t hi, float* db) {
  for (std::size_t row = 0; row < shape.rows; ++row, dy += shape.out) {
    for (std::size_t i = lo; i < hi; ++i) db[i] += to_float(dy[i]);
  }
}

constexpr std::size_t grain_rows = 16;

template <class Operand>
MUSTER_VECTOR_CLONES void normalize_row(const float* x, const float* gamma, const float* beta,
                                        std::size_t width, Operand* y, float* mean_out,
                                        float* rstd_out) {
  const float inverse = 1.0f / static_cast<float>(width);
  const float mean = lane_sum<float>(width, [=](std::size_t i) { return x[i]; }) * inverse;
  const float variance =
      lane_sum<float>(width, [=](std::size_t i) { return (x[i] - mean) * (x[i] - mean); }) *
      inverse;
  const float rstd = 1.0f / std::sqrt(variance + static_cast<float>(layer_norm_epsilon));
  for (std::size_t i = 0; i < width; ++i) {
    y[i] = to_operand<Operand>((x[i] - mean) * rstd * gamma[i] + beta[i]);
  }
  *mean_out = mean;
  *rstd_out = rstd;
}

MUSTER_VECTOR_CLONES
void backward_row(const float* x, const float* gamma, float mean, float rstd, const float* dy,
                  std::size_t width, float* dx) {
  const float inverse = 1.0f / static_cast<float>(width);
  const float mean_g =
      lane_sum<float>(width, [=](std::size_t i) { return dy[i] * gamma[i]; }) * inverse;
  const float mean_gn =
      lane_sum<float>(width,
                      [=](std::size_t i) { return dy[i] * gamma[i] * (x[i] - mean) * rstd; }) *
      inverse;
  for (std::size_t i = 0; i < width; ++i) {
    const float n = (x[i] - mean) * rstd;
    dx[i] += rstd * (dy[i] * gamma[i] - mean_g - n * mean_gn);
  }
}

// Columns [lo, hi) of dgamma and dbeta.
MUSTER_VECTOR_CLONES
void backward_columns(const LayerNormShape& shape, const float* x, const float* mean,
                      const float* rstd, const float* dy, std::size_t lo, std::size_t hi,
                      float* dgamma, float* dbeta) {
  for (std::size_t row = 0; row < shape.rows; ++row, x += shape.width, dy += shape.width) {
    const float m = mean[row], r = rstd[row];
    for (std::size_t i = lo; i < hi; ++i) {
      dgamma[i] += dy[i] * ((x[i] - m) * r);
      dbeta[i] += dy[i];
    }
  }
}

constexpr float root_two_over_pi = 0.797884560802865356f;
constexpr float cubic = 0.044715f;

inline float logistic_of_2u(float x) {
  const float u = root_two_over_pi * (x + cubic * x * x * x);
  return 1.0f / (1.0f + vector_exp(-2.0f * u));
}

constexpr std::size_t gelu_grain = 4096;

template <class Operand>
MUSTER_VECTOR_CLONES void forward_loop(const float* x, std::size_t count, Operand* y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = to_operand<Operand>(x[i] * logistic_of_2u(x[i]));
}

template <class Operand>
MUSTER_VECTOR_CLONES void backward_loop(const float* x, const float* dy, std::size_t count,
                                        Operand* dx) {
  for (std::size_t i = 0; i < count; ++i) {
    const float s = logistic_of_2u(x[i]);
    const float slope = root_two_over_pi * (1.0f + 3.0f * cubic * x[i] * x[i]);
    dx[i] = to_operand<Operand>(dy[i] * (s + 2.0f * x[i] * s * (1.0f - s) * slope));
  }
}

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
void linear_forward(const LinearShape& shape, std::span<const Operand> x,
                    std::span<const Operand> w, std::span<const float> b, std::span<float> y) {
  gemm({.m = shape.rows, .n = shape.out, .k = shape.in}, x.data(), w.data(), y.data(), b.data());
}

template <class Operand>
void linear_backward(const LinearShape& shape, std::span<const Operand> x,
                     std::span<const Operand> w, std::span<const Operand> dy, std::span<float> dx,
                     std::span<float> dw, std::span<float> db) {
  gemm({.m = shape.rows, .n = shape.in, .k = shape.out, .transpose_b = true}, dy.data(), w.data(),
       dx.data());
  gemm({.m = shape.in, .n = shape.out, .k = shape.rows, .transpose_a = true, .add = !shape.fresh},
       x.data(), dy.data(), dw.data());
  for_ranges(shape.out, grain_columns, [&](std::size_t lo, std::size_t hi) {
    add_rows(dy.data(), shape, lo, hi, db.data());
  });
}

template void linear_forward(const LinearShape&, std::span<const float>, std::span<const float>,
                             std::span<const float>, std::span<float>);
template void linear_forward(const LinearShape&, std::span<const Bf16>, std::span<const Bf16>,
                             std::span<const float>, std::span<float>);
template void linear_backward(const LinearShape&, std::span<const float>, std::span<const float>,
                              std::span<const float>, std::span<float>, std::span<float>,
                              std::span<float>);
template void linear_backward(const LinearShape&, std::span<const Bf16>, std::span<const Bf16>,
                              std::span<const Bf16>, std::span<float>, std::span<float>,
                              std::span<float>);

void embedding_forward(const EmbeddingShape& shape, std::span<const Token> tokens,
                       std::span<const float> token_table, std::span<const float> position_table,
                       std::span<float> x) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t t = 0; t < shape.context; ++t) {
      const std::size_t token = tokens[b * shape.stride + t];
      add(&token_table[token * shape.width], &position_table[t * shape.width], shape.width,
          &x[(b * shape.context + t) * shape.width]);
    }
  }
}

void embedding_backward(const EmbeddingShape& shape, std::span<const Token> tokens,
                        std::span<const float> dx, std::span<float> dtoken_table,
                        std::span<float> dposition_table) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t t = 0; t < shape.context; ++t) {
      const std::size_t token = tokens[b * shape.stride + t];
      const float* row = &dx[(b * shape.context + t) * shape.width];
      add_into(row, shape.width, &dtoken_table[token * shape.width]);
      add_into(row, shape.width, &dposition_table[t * shape.width]);
    }
  }
}

template <class Operand>
void layer_norm_forward(const LayerNormShape& shape, std::span<const float> x,
                        std::span<const float> gamma, std::span<const float> beta,
                        std::span<Operand> y, std::span<float> mean, std::span<float> rstd) {
  for_ranges(shape.rows, grain_rows, [&](std::size_t lo, std::size_t hi) {
    for (std::size_t row = lo; row < hi; ++row) {
      const std::size_t at = row * shape.width;
      normalize_row(&x[at], gamma.data(), beta.data(), shape.width, &y[at], &mean[row], &rstd[row]);
    }
  });
}

template void layer_norm_forward(const LayerNormShape&, std::span<const float>,
                                 std::span<const float>, std::span<const float>, std::span<float>,
                                 std::span<float>, std::span<float>);
template void layer_norm_forward(const LayerNormShape&, std::span<const float>,
                                 std::span<const float>, std::span<const float>, std::span<Bf16>,
                                 std::span<float>, std::span<float>);

void layer_norm_backward(const LayerNormShape& shape, std::span<const float> x,
                         std::span<const float> gamma, std::span<const float> mean,
                         std::span<const float> rstd, std::span<const float> dy,
                         std::span<float> dx, std::span<float> dgamma, std::span<float> dbeta) {
  for_ranges(shape.rows, grain_rows, [&](std::size_t lo, std::size_t hi) {
    for (std::size_t row = lo; row < hi; ++row) {
      const std::size_t at = row * shape.width;
      backward_row(&x[at], gamma.data(), mean[row], rstd[row], &dy[at], shape.width, &dx[at]);
    }
  });
  for_ranges(shape.width, grain_columns, [&](std::size_t lo, std::size_t hi) {
    backward_columns(shape, x.data(), mean.data(), rstd.data(), dy.data(), lo, hi, dgamma.data(),
                     dbeta.data());
  });
}

template <class Operand>
void gelu_forward(std::span<const float> x, std::span<Operand> y) {
  for_ranges(x.size(), gelu_grain, [&](std::size_t lo, std::size_t hi) {
    forward_loop(x.data() + lo, hi - lo, y.data() + lo);
  });
}

template <class Operand>
void gelu_backward(std::span<const float> x, std::span<const float> dy, std::span<Operand> dx) {
  for_ranges(x.size(), gelu_grain, [&](std::size_t lo, std::size_t hi) {
    backward_loop(x.data() + lo, dy.data() + lo, hi - lo, dx.data() + lo);
  });
}

template void gelu_forward(std::span<const float>, std::span<float>);
template void gelu_forward(std::span<const float>, std::span<Bf16>);
template void gelu_backward(std::span<const float>, std::span<const float>, std::span<float>);
template void gelu_backward(std::span<const float>, std::span<const float>, std::span<Bf16>);

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

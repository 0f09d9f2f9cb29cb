#include "tests/runtime/layer/reference.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "runtime/model/gpt.h"

namespace muster {

namespace {

// Element (sequence, position, part, head, i) of qkv; part 0 is q, 1 is k, 2 is v.
std::size_t qkv_at(const AttentionShape& shape, std::size_t sequence, std::size_t position,
                   std::size_t part, std::size_t head, std::size_t i) {
  return (((sequence * shape.context + position) * 3 + part) * shape.heads + head) *
             shape.head_width() +
         i;
}

std::size_t out_at(const AttentionShape& shape, std::size_t sequence, std::size_t position,
                   std::size_t head, std::size_t i) {
  return ((sequence * shape.context + position) * shape.heads + head) * shape.head_width() + i;
}

std::size_t row_at(const AttentionShape& shape, std::size_t sequence, std::size_t head,
                   std::size_t t) {
  return ((sequence * shape.heads + head) * shape.context + t) * shape.context;
}

template <class Visit>
void for_each_row(const AttentionShape& shape, Visit visit) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t h = 0; h < shape.heads; ++h) {
      for (std::size_t t = 0; t < shape.context; ++t) visit(b, h, t);
    }
  }
}

constexpr double cubic = 0.044715;
const double root_two_over_pi = std::sqrt(2 / std::numbers::pi);

double tanh_of_u(double x) {
  return std::tanh(root_two_over_pi * (x + cubic * x * x * x));
}

struct Moments {
  double mean = 0;
  double rstd = 0;
};

Moments moments_of(std::span<const double> row) {
  const auto width = static_cast<double>(row.size());
  double mean = 0;
  for (const double value : row) mean += value / width;
  double variance = 0;
  for (const double value : row) variance += (value - mean) * (value - mean) / width;
  return {mean, 1 / std::sqrt(variance + layer_norm_epsilon)};
}

}  // namespace

void gemm_reference(const GemmShape& shape, const double* a, const double* b, double* c) {
  for (std::size_t i = 0; i < shape.m; ++i) {
    for (std::size_t j = 0; j < shape.n; ++j) {
      double sum = 0;
      for (std::size_t p = 0; p < shape.k; ++p) {
        const double left = shape.transpose_a ? a[p * shape.lda() + i] : a[i * shape.lda() + p];
        const double right = shape.transpose_b ? b[j * shape.ldb() + p] : b[p * shape.ldb() + j];
        sum += left * right;
      }
      double& target = c[i * shape.n + j];
      target = sum + (shape.add ? target : 0);
    }
  }
}

void attention_forward_reference(const AttentionShape& shape, std::span<const double> qkv,
                                 std::span<double> out, std::span<double> probabilities) {
  const std::size_t width = shape.head_width();
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  for_each_row(shape, [&](std::size_t b, std::size_t h, std::size_t t) {
    double* p = &probabilities[row_at(shape, b, h, t)];
    double sum = 0;
    for (std::size_t s = 0; s < shape.context; ++s) {
      double score = 0;
      for (std::size_t i = 0; i < width; ++i) {
        score += qkv[qkv_at(shape, b, t, 0, h, i)] * qkv[qkv_at(shape, b, s, 1, h, i)];
      }
      p[s] = s <= t ? std::exp(score * scale) : 0;
      sum += p[s];
    }
    for (std::size_t s = 0; s < shape.context; ++s) p[s] /= sum;
    for (std::size_t i = 0; i < width; ++i) {
      double value = 0;
      for (std::size_t s = 0; s <= t; ++s) value += p[s] * qkv[qkv_at(shape, b, s, 2, h, i)];
      out[out_at(shape, b, t, h, i)] = value;
    }
  });
}

void attention_backward_reference(const AttentionShape& shape, std::span<const double> qkv,
                                  std::span<const double> probabilities,
                                  std::span<const double> dout, std::span<double> dqkv) {
  const std::size_t width = shape.head_width();
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  for (double& value : dqkv) value = 0;
  for_each_row(shape, [&](std::size_t b, std::size_t h, std::size_t t) {
    const double* p = &probabilities[row_at(shape, b, h, t)];
    const auto dp = [&](std::size_t s) {
      double sum = 0;
      for (std::size_t i = 0; i < width; ++i) {
        sum += dout[out_at(shape, b, t, h, i)] * qkv[qkv_at(shape, b, s, 2, h, i)];
      }
      return sum;
    };
    double row_sum = 0;
    for (std::size_t s = 0; s <= t; ++s) row_sum += p[s] * dp(s);
    for (std::size_t s = 0; s <= t; ++s) {
      const double ds = p[s] * (dp(s) - row_sum) * scale;
      for (std::size_t i = 0; i < width; ++i) {
        dqkv[qkv_at(shape, b, s, 2, h, i)] += p[s] * dout[out_at(shape, b, t, h, i)];
        dqkv[qkv_at(shape, b, t, 0, h, i)] += ds * qkv[qkv_at(shape, b, s, 1, h, i)];
        dqkv[qkv_at(shape, b, s, 1, h, i)] += ds * qkv[qkv_at(shape, b, t, 0, h, i)];
      }
    }
  });
}

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

void embedding_forward_reference(const EmbeddingShape& shape, std::span<const Token> tokens,
                                 std::span<const double> token_table,
                                 std::span<const double> position_table, std::span<double> x) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t t = 0; t < shape.context; ++t) {
      for (std::size_t i = 0; i < shape.width; ++i) {
        x[(b * shape.context + t) * shape.width + i] =
            token_table[tokens[b * shape.stride + t] * shape.width + i] +
            position_table[t * shape.width + i];
      }
    }
  }
}

void embedding_backward_reference(const EmbeddingShape& shape, std::span<const Token> tokens,
                                  std::span<const double> dx, std::span<double> dtoken_table,
                                  std::span<double> dposition_table) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t t = 0; t < shape.context; ++t) {
      for (std::size_t i = 0; i < shape.width; ++i) {
        const double gradient = dx[(b * shape.context + t) * shape.width + i];
        dtoken_table[tokens[b * shape.stride + t] * shape.width + i] += gradient;
        dposition_table[t * shape.width + i] += gradient;
      }
    }
  }
}

void gelu_forward_reference(std::span<const double> x, std::span<double> y) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = 0.5 * x[i] * (1 + tanh_of_u(x[i]));
}

void gelu_backward_reference(std::span<const double> x, std::span<const double> dy,
                             std::span<double> dx) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double t = tanh_of_u(x[i]);
    const double slope = root_two_over_pi * (1 + 3 * cubic * x[i] * x[i]);
    dx[i] = dy[i] * (0.5 * (1 + t) + 0.5 * x[i] * (1 - t * t) * slope);
  }
}

void layer_norm_forward_reference(const LayerNormShape& shape, std::span<const double> x,
                                  std::span<const double> gamma, std::span<const double> beta,
                                  std::span<double> y) {
  for (std::size_t row = 0; row < shape.rows; ++row) {
    const auto values = x.subspan(row * shape.width, shape.width);
    const auto [mean, rstd] = moments_of(values);
    for (std::size_t i = 0; i < shape.width; ++i) {
      y[row * shape.width + i] = (values[i] - mean) * rstd * gamma[i] + beta[i];
    }
  }
}

void layer_norm_backward_reference(const LayerNormShape& shape, std::span<const double> x,
                                   std::span<const double> gamma, std::span<const double> dy,
                                   std::span<double> dx, std::span<double> dgamma,
                                   std::span<double> dbeta) {
  const auto width = static_cast<double>(shape.width);
  for (std::size_t row = 0; row < shape.rows; ++row) {
    const auto values = x.subspan(row * shape.width, shape.width);
    const auto gradient = dy.subspan(row * shape.width, shape.width);
    const auto [mean, rstd] = moments_of(values);
    double mean_g = 0;
    double mean_gn = 0;
    for (std::size_t i = 0; i < shape.width; ++i) {
      const double n = (values[i] - mean) * rstd;
      mean_g += gradient[i] * gamma[i] / width;
      mean_gn += gradient[i] * gamma[i] * n / width;
      dgamma[i] += gradient[i] * n;
      dbeta[i] += gradient[i];
    }
    for (std::size_t i = 0; i < shape.width; ++i) {
      const double n = (values[i] - mean) * rstd;
      dx[row * shape.width + i] += rstd * (gradient[i] * gamma[i] - mean_g - n * mean_gn);
    }
  }
}

void linear_forward_reference(const LinearShape& shape, std::span<const double> x,
                              std::span<const double> w, std::span<const double> b,
                              std::span<double> y) {
  for (std::size_t row = 0; row < shape.rows; ++row) {
    for (std::size_t o = 0; o < shape.out; ++o) {
      double sum = b[o];
      for (std::size_t i = 0; i < shape.in; ++i)
        sum += x[row * shape.in + i] * w[i * shape.out + o];
      y[row * shape.out + o] = sum;
    }
  }
}

void linear_backward_reference(const LinearShape& shape, std::span<const double> x,
                               std::span<const double> w, std::span<const double> dy,
                               std::span<double> dx, std::span<double> dw, std::span<double> db) {
  if (shape.fresh) std::fill(dw.begin(), dw.end(), 0.0);
  for (std::size_t row = 0; row < shape.rows; ++row) {
    for (std::size_t i = 0; i < shape.in; ++i) dx[row * shape.in + i] = 0;
    for (std::size_t o = 0; o < shape.out; ++o) {
      const double gradient = dy[row * shape.out + o];
      db[o] += gradient;
      for (std::size_t i = 0; i < shape.in; ++i) {
        dx[row * shape.in + i] += gradient * w[i * shape.out + o];
        dw[i * shape.out + o] += gradient * x[row * shape.in + i];
      }
    }
  }
}

void adamw_reference(const AdamwSettings& settings, const AdamwStep& step,
                     std::span<const double> gradient, std::span<double> p, std::span<double> m,
                     std::span<double> v) {
  const auto t = static_cast<double>(step.t);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double g = gradient[i] * step.gradient_scale;
    p[i] -= step.lr * step.decay * p[i];
    m[i] = settings.beta1 * m[i] + (1 - settings.beta1) * g;
    v[i] = settings.beta2 * v[i] + (1 - settings.beta2) * g * g;
    const double m_hat = m[i] / (1 - std::pow(settings.beta1, t));
    const double v_hat = v[i] / (1 - std::pow(settings.beta2, t));
    p[i] -= step.lr * m_hat / (std::sqrt(v_hat) + settings.epsilon);
  }
}

namespace {

using namespace gpt_parameter;
using Buffer = std::vector<double>;

// One forward pass; buffers are made where they are needed, speed does not matter.
struct ReferencePass {
  GptShape shape;
  FlatSpace space;
  std::size_t sequences;
  std::size_t rows;
  std::span<const double> weights;

  std::span<const double> weight(std::size_t index) const {
    const FlatParameter& param = space.params[index];
    return weights.subspan(param.offset, param.size());
  }

  Buffer normed(const Buffer& x, std::size_t gamma) const {
    Buffer y(x.size());
    layer_norm_forward_reference({rows, shape.width}, x, weight(gamma), weight(gamma + 1), y);
    return y;
  }

  Buffer linear(const Buffer& x, std::size_t in, std::size_t out, std::size_t matrix) const {
    Buffer y(rows * out);
    linear_forward_reference({rows, in, out}, x, weight(matrix), weight(matrix + 1), y);
    return y;
  }

  void layer(std::size_t index, Buffer& x) const {
    const std::size_t c = shape.width;
    const AttentionShape attention{sequences, shape.context, shape.heads, c};
    const Buffer qkv =
        linear(normed(x, of_layer(index, ln_1_weight)), c, 3 * c, of_layer(index, attn_weight));
    Buffer attended(rows * c);
    Buffer probabilities(attention.probabilities());
    attention_forward_reference(attention, qkv, attended, probabilities);
    add(linear(attended, c, c, of_layer(index, attn_proj_weight)), x);
    const Buffer hidden =
        linear(normed(x, of_layer(index, ln_2_weight)), c, 4 * c, of_layer(index, fc_weight));
    Buffer activated(hidden.size());
    gelu_forward_reference(hidden, activated);
    add(linear(activated, 4 * c, c, of_layer(index, fc_proj_weight)), x);
  }

  static void add(const Buffer& branch, Buffer& x) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += branch[i];
  }
};

}  // namespace

double gpt_loss_reference(const GptShape& shape, std::size_t sequences,
                          std::span<const double> weights, std::span<const Token> tokens) {
  const std::size_t rows = sequences * shape.context;
  const ReferencePass pass{shape, gpt_flat_space(shape), sequences, rows, weights};
  Buffer x(rows * shape.width);
  embedding_forward_reference({sequences, shape.context, shape.width, shape.context + 1}, tokens,
                              pass.weight(wte), pass.weight(wpe), x);
  for (std::size_t index = 0; index < shape.layers; ++index) pass.layer(index, x);
  const Buffer normed = pass.normed(x, ln_f_weight(shape.layers));
  Buffer logits(rows * shape.vocabulary);
  gemm_reference({.m = rows, .n = shape.vocabulary, .k = shape.width, .transpose_b = true},
                 normed.data(), pass.weight(head(shape)).data(), logits.data());
  std::vector<Token> targets(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    targets[row] = tokens[row / shape.context * (shape.context + 1) + row % shape.context + 1];
  }
  return cross_entropy_reference(targets, shape.vocabulary, logits);
}

}  // namespace muster

#include <cmath>

#include "runtime/layer/attention.h"

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

}  // namespace

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

}  // namespace muster

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "runtime/layer/attention/attention.h"
#include "runtime/layer/attention/tile_product.h"
#include "runtime/layer/parallel.h"
#include "runtime/memory/vector_loops.h"
#include "runtime/memory/bf16.h"

namespace muster {
namespace {

// Rows of Q that are worked on together; a multiple of both tile sizes.
constexpr std::size_t block = 32;
static_assert(block % tile_rows == 0 && block % tile_columns == 0);

std::size_t padded(std::size_t count) {
  return (count + block - 1) / block * block;
}

// The scratch of one head, zero-padded to whole tiles: the padding must be finite, as it meets
// zeros in products.
struct HeadScratch {
  HeadScratch(const AttentionShape& shape, std::span<float> memory)
      : context(padded(shape.context)), width(padded(shape.head_width())) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    next_ = memory.data() + (64 - address % 64) % 64 / sizeof(float);
    for (float** matrix : {&k_transposed, &v_transposed}) *matrix = take(width * context);
    for (float** matrix : {&k, &v, &dk, &dv}) *matrix = take(context * width);
    for (float** matrix : {&q, &o, &dq}) *matrix = take(block * width);
    for (float** matrix : {&p, &ds}) *matrix = take(block * context);
    if (context != shape.context || width != shape.head_width()) {
      std::fill(k_transposed, next_, 0.0f);
    }
  }
  static std::size_t elements(const AttentionShape& shape) {
    const std::size_t context = padded(shape.context), width = padded(shape.head_width());
    return 6 * context * width + 3 * block * width + 2 * block * context + 16;
  }

  std::size_t context, width;
  float *k_transposed, *v_transposed;  // [width, context]
  float *k, *v, *dk, *dv;              // [context, width]
  float *q, *o, *dq;                   // [block, width]
  float *p, *ds;                       // [block, context]

 private:
  float* take(std::size_t count) { return std::exchange(next_, next_ + count); }
  float* next_ = nullptr;
};

// Where the matrices of one head of one sequence begin, in elements.
struct HeadOffsets {
  std::size_t q, k, v, out, rows;
};

HeadOffsets offsets_of(const AttentionShape& shape, std::size_t sequence, std::size_t head) {
  const std::size_t column = head * shape.head_width();
  const std::size_t row = sequence * shape.context;
  const std::size_t q = row * 3 * shape.width + column;
  return {q, q + shape.width, q + 2 * shape.width, row * shape.width + column,
          (sequence * shape.heads + head) * shape.context};
}

// Heads are spread over the threads, each with a part of the scratch.
template <class Visit>
void for_each_head(const AttentionShape& shape, std::span<float> scratch, Visit visit) {
  for_ranges(shape.batch * shape.heads, 1, [&](std::size_t lo, std::size_t hi) {
    const std::size_t size = HeadScratch::elements(shape);
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    const HeadScratch memory(shape, scratch.subspan(thread * size, size));
    for (std::size_t i = lo; i < hi; ++i) {
      visit(memory, offsets_of(shape, i / shape.heads, i % shape.heads));
    }
  });
}

float scale_of(const AttentionShape& shape) {
  return 1.0f / std::sqrt(static_cast<float>(shape.head_width()));
}

// to[i, j] = factor from[i, j]; what lies beside stays.
template <class Number>
MUSTER_VECTOR_CLONES void copy_rows(const float* from, std::size_t from_row, std::size_t rows,
                                    std::size_t columns, float factor, Number* to,
                                    std::size_t to_row) {
  for (std::size_t i = 0; i < rows; ++i, from += from_row, to += to_row) {
    for (std::size_t j = 0; j < columns; ++j) to[j] = to_operand<Number>(factor * from[j]);
  }
}

// A row of scores, of which the first `count` are allowed and `columns` is a multiple of the block,
// becomes e^(s - max) followed by zeros. Returns the sum; `highest` is the maximum. Working on all
// columns is faster than on some.
MUSTER_VECTOR_CLONES
float exponentials(float* row, std::size_t count, std::size_t columns, float& highest) {
  const std::size_t all = columns / block * block;
  for (std::size_t s = count; s < all; ++s) row[s] = row[0];
  float most[sum_lanes];
  std::copy_n(row, sum_lanes, most);
  for (std::size_t s = 0; s < all; s += sum_lanes) {
    for (std::size_t i = 0; i < sum_lanes; ++i)
      most[i] = most[i] < row[s + i] ? row[s + i] : most[i];
  }
  highest = *std::max_element(most, most + sum_lanes);
  const float shift = highest;
  for (std::size_t s = 0; s < all; ++s) row[s] = vector_exp(row[s] - shift);
  for (std::size_t s = count; s < all; ++s) row[s] = 0;
  const float* const values = row;
  return lane_sum<float>(all, [=](std::size_t s) { return values[s]; });
}

// Scores become probabilities again, and dP becomes dS.
MUSTER_VECTOR_CLONES
void softmax_backward(float* p, float* dp, std::size_t count, std::size_t columns, float log_sum,
                      float scale) {
  const std::size_t all = columns / block * block;
  for (std::size_t s = 0; s < all; ++s) p[s] = vector_exp(p[s] - log_sum);
  for (std::size_t s = count; s < all; ++s) p[s] = 0;
  const float *probability = p, *gradient = dp;
  const float sum =
      lane_sum<float>(all, [=](std::size_t s) { return probability[s] * gradient[s]; });
  for (std::size_t s = 0; s < all; ++s) dp[s] = p[s] * (dp[s] - sum) * scale;
}

// One head: every block of rows against the columns up to its last row.
class Head {
 public:
  Head(const AttentionShape& shape, const HeadScratch& scratch)
      : shape_(shape), scratch_(scratch), width_(shape.head_width()), stride_(3 * shape.width) {}

  template <class Operand>
  void forward(const float* q, const float* k, const float* v, Operand* out, float* log_sums) {
    transpose(k, shape_.context, width_, stride_, scratch_.k_transposed, scratch_.context);
    copy_rows(v, stride_, shape_.context, width_, 1, scratch_.v, scratch_.width);
    for (std::size_t first = 0; first < shape_.context; first += block) {
      const std::size_t rows = std::min(block, shape_.context - first);
      const std::size_t columns = first + block;
      scores(q + first * stride_, rows, columns);
      float inverse[block];
      for (std::size_t i = 0; i < rows; ++i) {
        float highest = 0;
        const float sum =
            exponentials(scratch_.p + i * scratch_.context, first + i + 1, columns, highest);
        log_sums[first + i] = highest + std::log(sum);
        inverse[i] = 1.0f / sum;
      }
      tile_product(rows_by_width(columns), scratch_.p, scratch_.v, scratch_.o);
      for (std::size_t i = 0; i < rows; ++i) {
        copy_rows(scratch_.o + i * scratch_.width, 0, 1, width_, inverse[i],
                  out + (first + i) * shape_.width, 0);
      }
    }
  }

  template <class Operand>
  void backward(const float* q, const float* k, const float* v, const float* log_sums,
                const float* dout, Operand* dq, Operand* dk, Operand* dv) {
    transpose(k, shape_.context, width_, stride_, scratch_.k_transposed, scratch_.context);
    transpose(v, shape_.context, width_, stride_, scratch_.v_transposed, scratch_.context);
    copy_rows(k, stride_, shape_.context, width_, 1, scratch_.k, scratch_.width);
    std::fill_n(scratch_.dk, scratch_.context * scratch_.width, 0.0f);
    std::fill_n(scratch_.dv, scratch_.context * scratch_.width, 0.0f);
    for (std::size_t first = 0; first < shape_.context; first += block) {
      const std::size_t rows = std::min(block, shape_.context - first);
      const std::size_t columns = first + block;
      scores(q + first * stride_, rows, columns);
      load_block(dout + first * shape_.width, shape_.width, rows, 1, scratch_.o);
      tile_product(rows_by_columns(columns), scratch_.o, scratch_.v_transposed, scratch_.ds);
      for (std::size_t i = 0; i < rows; ++i) {
        softmax_backward(scratch_.p + i * scratch_.context, scratch_.ds + i * scratch_.context,
                         first + i + 1, columns, log_sums[first + i], scale_of(shape_));
      }
      clear_rows_from(rows, columns);
      add_tile_product(columns_by_width(columns), scratch_.p, scratch_.o, scratch_.dv);
      load_block(q + first * stride_, stride_, rows, 1, scratch_.q);
      add_tile_product(columns_by_width(columns), scratch_.ds, scratch_.q, scratch_.dk);
      tile_product(rows_by_width(columns), scratch_.ds, scratch_.k, scratch_.dq);
      copy_rows(scratch_.dq, scratch_.width, rows, width_, 1, dq + first * stride_, stride_);
    }
    copy_rows(scratch_.dk, scratch_.width, shape_.context, width_, 1, dk, stride_);
    copy_rows(scratch_.dv, scratch_.width, shape_.context, width_, 1, dv, stride_);
  }

 private:
  void scores(const float* q, std::size_t rows, std::size_t columns) {
    load_block(q, stride_, rows, scale_of(shape_), scratch_.q);
    tile_product(rows_by_columns(columns), scratch_.q, scratch_.k_transposed, scratch_.p);
  }

  void load_block(const float* from, std::size_t stride, std::size_t rows, float factor,
                  float* to) {
    copy_rows(from, stride, rows, width_, factor, to, scratch_.width);
    std::fill(to + rows * scratch_.width, to + block * scratch_.width, 0.0f);
  }

  // Rows of the last block that do not exist.
  void clear_rows_from(std::size_t rows, std::size_t columns) {
    for (std::size_t i = rows; i < block; ++i) {
      std::fill_n(scratch_.p + i * scratch_.context, columns, 0.0f);
      std::fill_n(scratch_.ds + i * scratch_.context, columns, 0.0f);
    }
  }

  // [block, D] times [D, columns]
  TileProduct rows_by_columns(std::size_t columns) const {
    return {block, columns, width_, scratch_.width, 1, scratch_.context, scratch_.context};
  }
  // [block, columns] times [columns, D]
  TileProduct rows_by_width(std::size_t columns) const {
    return {block, scratch_.width, columns, scratch_.context, 1, scratch_.width, scratch_.width};
  }
  // [block, columns] transposed, times [block, D]
  TileProduct columns_by_width(std::size_t columns) const {
    return {columns, scratch_.width, block, 1, scratch_.context, scratch_.width, scratch_.width};
  }

  const AttentionShape& shape_;
  const HeadScratch& scratch_;
  std::size_t width_;   // D
  std::size_t stride_;  // from one position of qkv to the next
};

}  // namespace

std::size_t attention_scratch(const AttentionShape& shape) {
  return HeadScratch::elements(shape) * static_cast<std::size_t>(omp_get_max_threads());
}

template <class Operand>
void attention_forward(const AttentionShape& shape, std::span<const float> qkv,
                       std::span<Operand> out, std::span<float> log_sums,
                       std::span<float> scratch) {
  for_each_head(shape, scratch, [&](const HeadScratch& memory, const HeadOffsets& at) {
    Head(shape, memory)
        .forward(&qkv[at.q], &qkv[at.k], &qkv[at.v], &out[at.out], &log_sums[at.rows]);
  });
}

template <class Operand>
void attention_backward(const AttentionShape& shape, std::span<const float> qkv,
                        std::span<const float> log_sums, std::span<const float> dout,
                        std::span<Operand> dqkv, std::span<float> scratch) {
  for_each_head(shape, scratch, [&](const HeadScratch& memory, const HeadOffsets& at) {
    Head(shape, memory)
        .backward(&qkv[at.q], &qkv[at.k], &qkv[at.v], &log_sums[at.rows], &dout[at.out],
                  &dqkv[at.q], &dqkv[at.k], &dqkv[at.v]);
  });
}

template void attention_forward(const AttentionShape&, std::span<const float>, std::span<float>,
                                std::span<float>, std::span<float>);
template void attention_forward(const AttentionShape&, std::span<const float>, std::span<Bf16>,
                                std::span<float>, std::span<float>);
template void attention_backward(const AttentionShape&, std::span<const float>,
                                 std::span<const float>, std::span<const float>, std::span<float>,
                                 std::span<float>);
template void attention_backward(const AttentionShape&, std::span<const float>,
                                 std::span<const float>, std::span<const float>, std::span<Bf16>,
                                 std::span<float>);

}  // namespace muster

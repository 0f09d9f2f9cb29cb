#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "runtime/layer/attention.h"
#include "runtime/layer/parallel.h"
#include "runtime/layer/tile_product.h"
#include "runtime/memory/bf16.h"
#include "runtime/memory/vector_loops.h"

namespace muster {
namespace {

constexpr std::size_t block_rows = attention_block;
static_assert(block_rows % tile_rows == 0 && block_rows % tile_columns == 0);

std::size_t padded(std::size_t count) {
  return padded_to_attention_block(count);
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

// A matrix of floats in memory that rows are `row` apart in.
struct Rows {
  const float* values;
  std::size_t row, rows, columns;
  float factor = 1;
};

// How products read their operands, in units of `depth` elements along k: floats, or pairs of bf16.
struct Floats {
  using Unit = float;
  static constexpr std::size_t depth = 1;
  static void load_along_columns(const Rows& from, Unit* to, std::size_t to_row) {
    copy_rows(from.values, from.row, from.rows, from.columns, from.factor, to, to_row);
  }
  static void load_along_rows(const Rows& from, Unit* to, std::size_t to_row) {
    load_along_columns(from, to, to_row);
  }
  static void load_transposed(const Rows& from, Unit*, std::size_t, Unit* to, std::size_t to_row) {
    transpose(from.values, from.rows, from.columns, from.row, to, to_row);
  }
  static const Unit* along_columns(const Rows& values, Unit*) { return values.values; }
  static const Unit* along_rows(const Rows& values, Unit*) { return values.values; }
};

struct Pairs {
  using Unit = Bf16Pair;
  static constexpr std::size_t depth = 2;
  static void load_along_columns(const Rows& from, Unit* to, std::size_t to_row) {
    pair_columns(from.values, from.row, from.rows, from.columns, from.factor, to, to_row);
  }
  static void load_along_rows(const Rows& from, Unit* to, std::size_t to_row) {
    pair_rows(from.values, from.row, from.rows, from.columns, from.factor, to, to_row);
  }
  static void load_transposed(const Rows& from, Unit* paired, std::size_t paired_row, Unit* to,
                              std::size_t to_row) {
    load_along_columns(from, paired, paired_row);
    transpose(paired, from.rows, (from.columns + 1) / 2, paired_row, to, to_row);
  }
  static const Unit* along_columns(const Rows& values, Unit* memory) {
    load_along_columns(values, memory, values.row / depth);
    return memory;
  }
  static const Unit* along_rows(const Rows& values, Unit* memory) {
    load_along_rows(values, memory, values.row);
    return memory;
  }
};

// The scratch of one head, zero-padded to whole tiles: the padding must be finite, as it meets
// zeros in products. Sizes are those of floats; pairs take half.
template <class Form>
struct HeadScratch {
  using Unit = typename Form::Unit;

  HeadScratch(const AttentionShape& shape, std::span<float> memory)
      : context(padded(shape.context)), width(padded(shape.head_width())) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    next_ = memory.data() + (64 - address % 64) % 64 / sizeof(float);
    float* const first = next_;
    for (Unit** matrix : {&k_transposed, &v_transposed, &k, &v, &paired}) {
      *matrix = take_units(context * width);
    }
    for (Unit** matrix : {&q, &dout, &q_rows, &dout_rows}) *matrix = take_units(block_rows * width);
    for (Unit** matrix : {&p_units, &ds_units}) *matrix = take_units(block_rows * context);
    for (float** matrix : {&dk, &dv}) *matrix = take(context * width);
    product = take(block_rows * width);
    for (float** matrix : {&p, &ds}) *matrix = take(block_rows * context);
    if (context != shape.context || width != shape.head_width()) {
      std::memset(first, 0, static_cast<std::size_t>(next_ - first) * sizeof(float));
    }
  }
  std::size_t context, width;
  Unit *k_transposed, *v_transposed;  // [width / depth, context]
  Unit *k, *v;                        // [context / depth, width]
  Unit* paired;                       // [context, width / depth]
  Unit *q, *dout;                     // [block, width / depth]
  Unit *q_rows, *dout_rows;           // [block / depth, width]
  Unit *p_units, *ds_units;           // [block, context / depth] or [block / depth, context]
  float *dk, *dv;                     // [context, width]
  float* product;                     // [block, width]
  float *p, *ds;                      // [block, context]

 private:
  float* take(std::size_t count) { return std::exchange(next_, next_ + count); }
  Unit* take_units(std::size_t count) { return reinterpret_cast<Unit*>(take(count)); }
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
template <class Form, class Visit>
void for_each_head(const AttentionShape& shape, std::span<float> scratch, Visit visit) {
  for_ranges(shape.batch * shape.heads, 1, [&](std::size_t lo, std::size_t hi) {
    const std::size_t size = attention_scratch_of_thread(shape);
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    const HeadScratch<Form> memory(shape, scratch.subspan(thread * size, size));
    for (std::size_t i = lo; i < hi; ++i) {
      visit(memory, offsets_of(shape, i / shape.heads, i % shape.heads));
    }
  });
}

float scale_of(const AttentionShape& shape) {
  return 1.0f / std::sqrt(static_cast<float>(shape.head_width()));
}

// A row of scores, of which the first `count` are allowed and `columns` is a multiple of the block,
// becomes e^(s - max) followed by zeros. Returns the sum; `highest` is the maximum. Working on all
// columns is faster than on some.
MUSTER_VECTOR_CLONES
float exponentials(float* row, std::size_t count, std::size_t columns, float& highest) {
  const std::size_t all = columns / block_rows * block_rows;
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
  const std::size_t all = columns / block_rows * block_rows;
  for (std::size_t s = 0; s < all; ++s) p[s] = vector_exp(p[s] - log_sum);
  for (std::size_t s = count; s < all; ++s) p[s] = 0;
  const float *probability = p, *gradient = dp;
  const float sum =
      lane_sum<float>(all, [=](std::size_t s) { return probability[s] * gradient[s]; });
  for (std::size_t s = 0; s < all; ++s) dp[s] = p[s] * (dp[s] - sum) * scale;
}

// One head: every block of rows against the columns up to its last row.
template <class Form>
class Head {
  using Unit = typename Form::Unit;
  static constexpr std::size_t depth = Form::depth;

 public:
  Head(const AttentionShape& shape, const HeadScratch<Form>& scratch)
      : shape_(shape), scratch_(scratch), width_(shape.head_width()), stride_(3 * shape.width) {}

  template <class Operand>
  void forward(const float* q, const float* k, const float* v, Operand* out, float* log_sums) {
    transpose_all(k, scratch_.k_transposed);
    Form::load_along_rows(all_of(v), scratch_.v, scratch_.width);
    for (std::size_t first = 0; first < shape_.context; first += block_rows) {
      const std::size_t rows = std::min(block_rows, shape_.context - first);
      const std::size_t columns = first + block_rows;
      scores(q + first * stride_, rows, columns);
      float inverse[block_rows];
      for (std::size_t i = 0; i < rows; ++i) {
        float highest = 0;
        const float sum =
            exponentials(scratch_.p + i * scratch_.context, first + i + 1, columns, highest);
        log_sums[first + i] = highest + std::log(sum);
        inverse[i] = 1.0f / sum;
      }
      const Unit* const p = Form::along_columns(block_of(scratch_.p, columns), scratch_.p_units);
      tile_product(rows_by_width(columns), p, scratch_.v, scratch_.product);
      for (std::size_t i = 0; i < rows; ++i) {
        copy_rows(scratch_.product + i * scratch_.width, 0, 1, width_, inverse[i],
                  out + (first + i) * shape_.width, 0);
      }
    }
  }

  template <class Operand>
  void backward(const float* q, const float* k, const float* v, const float* log_sums,
                const float* dout, Operand* dq, Operand* dk, Operand* dv) {
    transpose_all(k, scratch_.k_transposed);
    transpose_all(v, scratch_.v_transposed);
    Form::load_along_rows(all_of(k), scratch_.k, scratch_.width);
    std::fill_n(scratch_.dk, scratch_.context * scratch_.width, 0.0f);
    std::fill_n(scratch_.dv, scratch_.context * scratch_.width, 0.0f);
    for (std::size_t first = 0; first < shape_.context; first += block_rows) {
      const std::size_t rows = std::min(block_rows, shape_.context - first);
      const std::size_t columns = first + block_rows;
      const Rows q_block{q + first * stride_, stride_, rows, width_};
      const Rows dout_block{dout + first * shape_.width, shape_.width, rows, width_};
      scores(q_block.values, rows, columns);
      load_along_columns(dout_block, scratch_.dout);
      tile_product(rows_by_columns(columns), scratch_.dout, scratch_.v_transposed, scratch_.ds);
      for (std::size_t i = 0; i < rows; ++i) {
        softmax_backward(scratch_.p + i * scratch_.context, scratch_.ds + i * scratch_.context,
                         first + i + 1, columns, log_sums[first + i], scale_of(shape_));
      }
      clear_rows_from(rows, columns);
      load_along_rows(dout_block, scratch_.dout_rows);
      load_along_rows(q_block, scratch_.q_rows);
      const Rows p = block_of(scratch_.p, columns), ds = block_of(scratch_.ds, columns);
      tile_product(columns_by_width(columns), Form::along_rows(p, scratch_.p_units),
                   scratch_.dout_rows, scratch_.dv);
      tile_product(columns_by_width(columns), Form::along_rows(ds, scratch_.ds_units),
                   scratch_.q_rows, scratch_.dk);
      tile_product(rows_by_width(columns), Form::along_columns(ds, scratch_.ds_units), scratch_.k,
                   scratch_.product);
      copy_rows(scratch_.product, scratch_.width, rows, width_, 1, dq + first * stride_, stride_);
    }
    copy_rows(scratch_.dk, scratch_.width, shape_.context, width_, 1, dk, stride_);
    copy_rows(scratch_.dv, scratch_.width, shape_.context, width_, 1, dv, stride_);
  }

 private:
  Rows all_of(const float* matrix) const { return {matrix, stride_, shape_.context, width_}; }
  Rows block_of(const float* matrix, std::size_t columns) const {
    return {matrix, scratch_.context, block_rows, columns};
  }

  void transpose_all(const float* matrix, Unit* to) {
    Form::load_transposed(all_of(matrix), scratch_.paired, scratch_.width / depth, to,
                          scratch_.context);
  }

  void scores(const float* q, std::size_t rows, std::size_t columns) {
    load_along_columns({q, stride_, rows, width_, scale_of(shape_)}, scratch_.q);
    tile_product(rows_by_columns(columns), scratch_.q, scratch_.k_transposed, scratch_.p);
  }

  // Rows of the last block that do not exist are zero.
  void load_along_columns(const Rows& from, Unit* to) {
    Form::load_along_columns(from, to, scratch_.width / depth);
    std::fill(to + from.rows * scratch_.width / depth, to + block_rows * scratch_.width / depth,
              Unit{});
  }
  void load_along_rows(const Rows& from, Unit* to) {
    Form::load_along_rows(from, to, scratch_.width);
    const std::size_t loaded = (from.rows + depth - 1) / depth;
    std::fill(to + loaded * scratch_.width, to + block_rows / depth * scratch_.width, Unit{});
  }
  void clear_rows_from(std::size_t rows, std::size_t columns) {
    for (std::size_t i = rows; i < block_rows; ++i) {
      std::fill_n(scratch_.p + i * scratch_.context, columns, 0.0f);
      std::fill_n(scratch_.ds + i * scratch_.context, columns, 0.0f);
    }
  }

  // [block, D] times [D, columns]
  TileProduct rows_by_columns(std::size_t columns) const {
    return {block_rows, columns,          width_in_units(), width_in_units(),
            1,          scratch_.context, scratch_.context};
  }
  // [block, columns] times [columns, D]
  TileProduct rows_by_width(std::size_t columns) const {
    return {block_rows, scratch_.width, columns / depth, scratch_.context / depth,
            1,          scratch_.width, scratch_.width};
  }
  // [block, columns] transposed, times [block, D], added up
  TileProduct columns_by_width(std::size_t columns) const {
    return {columns,          scratch_.width, block_rows / depth, 1,
            scratch_.context, scratch_.width, scratch_.width,     true};
  }
  std::size_t width_in_units() const { return scratch_.width / depth; }

  const AttentionShape& shape_;
  const HeadScratch<Form>& scratch_;
  std::size_t width_;   // D
  std::size_t stride_;  // from one position of qkv to the next
};

// Where the next product reads bf16, these may too.
template <class Operand, class Run>
void in_best_form(Run run) {
  if (std::is_same_v<Operand, Bf16> && has_pair_product()) return run(Pairs{});
  run(Floats{});
}

}  // namespace

std::size_t attention_scratch(const AttentionShape& shape) {
  return attention_scratch_of_thread(shape) * static_cast<std::size_t>(omp_get_max_threads());
}

template <class Operand>
void attention_forward(const AttentionShape& shape, std::span<const float> qkv,
                       std::span<Operand> out, std::span<float> log_sums,
                       std::span<float> scratch) {
  in_best_form<Operand>([&]<class Form>(Form) {
    for_each_head<Form>(
        shape, scratch, [&](const HeadScratch<Form>& memory, const HeadOffsets& at) {
          Head<Form>(shape, memory)
              .forward(&qkv[at.q], &qkv[at.k], &qkv[at.v], &out[at.out], &log_sums[at.rows]);
        });
  });
}

template <class Operand>
void attention_backward(const AttentionShape& shape, std::span<const float> qkv,
                        std::span<const float> log_sums, std::span<const float> dout,
                        std::span<Operand> dqkv, std::span<float> scratch) {
  in_best_form<Operand>([&]<class Form>(Form) {
    for_each_head<Form>(shape, scratch,
                        [&](const HeadScratch<Form>& memory, const HeadOffsets& at) {
                          Head<Form>(shape, memory)
                              .backward(&qkv[at.q], &qkv[at.k], &qkv[at.v], &log_sums[at.rows],
                                        &dout[at.out], &dqkv[at.q], &dqkv[at.k], &dqkv[at.v]);
                        });
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

// Every layer against its fp64 twin, and every twin's backward against central differences of its
// forward.

#include <omp.h>

#include <bit>
#include <functional>
#include <limits>
#include <numeric>

#include "runtime/layer/attention.h"
#include "runtime/layer/gemm.h"
#include "runtime/layer/layers.h"
#include "runtime/layer/tile_product.h"
#include "runtime/memory/vector_loops.h"
#include "tests/catch.h"
#include "tests/runtime/layer/reference.h"
#include "tests/runtime/random_values.h"
#include "tests/skip.h"

using namespace muster;
using namespace muster::test;

namespace {

using Values = std::vector<double>;

constexpr double op_tolerance = 1e-5;
// One rounding of the result to bf16 is at most 2^-9 of each value.
template <class Operand>
constexpr double rounding = std::is_same_v<Operand, Bf16> ? 1.0 / 512 : op_tolerance;
constexpr double difference_tolerance = 1e-6;
constexpr double difference_step = 1e-4;

double dot(const Values& a, const Values& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// d loss / d x by central differences; `loss` looks at x.
Values differences(Values& x, const std::function<double()>& loss) {
  Values gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    x[i] = kept + difference_step;
    const double above = loss();
    x[i] = kept - difference_step;
    const double below = loss();
    x[i] = kept;
    gradient[i] = (above - below) / (2 * difference_step);
  }
  return gradient;
}

}  // namespace

TEST_CASE("the vector exponential is exact to 2e-7 and clamps outside its range") {
  for (double x = -86; x < 87.5; x += 0.0137) {
    const auto narrow_x = static_cast<float>(x);
    CHECK(std::abs(vector_exp(narrow_x) / std::exp(double{narrow_x}) - 1) < 2e-7);
  }
  CHECK(vector_exp(-1e30f) < 1e-37f);
  CHECK(std::isfinite(vector_exp(1e30f)));
}

TEST_CASE("bf16 is the nearest, ties to even, and keeps what is not a number") {
  CHECK(to_bf16(1.0f).bits == 0x3f80);
  CHECK(to_bf16(std::bit_cast<float>(0x3f808000u)).bits == 0x3f80);
  CHECK(to_bf16(std::bit_cast<float>(0x3f818000u)).bits == 0x3f82);
  CHECK(to_bf16(std::bit_cast<float>(0x3f808001u)).bits == 0x3f81);
  CHECK(to_bf16(std::bit_cast<float>(0x7f7fffffu)).bits == 0x7f80);
  CHECK(std::isinf(to_float(to_bf16(-std::numeric_limits<float>::infinity()))));
  CHECK(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001u)))));
  CHECK(std::isnan(to_float(to_bf16(std::bit_cast<float>(0xffffffffu)))));
}

// Layers with bf16 operands run where the processor multiplies them.
#define NEEDS_PRODUCTS_OF(Operand)                          \
  if (std::is_same_v<Operand, Bf16> && !has_bf16_gemm()) {  \
    skip_test("no bf16 matrix products on this processor"); \
    return;                                                 \
  }

TEMPLATE_TEST_CASE("matrix products agree with three loops for every transposition", "", float,
                   Bf16) {
  NEEDS_PRODUCTS_OF(TestType)
  for (int flags = 0; flags < 16; ++flags) {
    const bool biased = (flags & 8) != 0;
    GemmShape shape{.m = 13,
                    .n = 7,
                    .k = 31,
                    .transpose_a = (flags & 1) != 0,
                    .transpose_b = (flags & 2) != 0,
                    .add = (flags & 4) != 0};
    if (biased && shape.add) continue;
    const auto a = operands<TestType>(normal_values(13 * 31, 1));
    const auto b = operands<TestType>(normal_values(31 * 7, 2));
    const Values bias = normal_values(7, 4);
    Values c = normal_values(13 * 7, 3);
    auto narrow_c = narrow(c);
    gemm(shape, a.data(), b.data(), narrow_c.data(), biased ? narrow(bias).data() : nullptr);
    gemm_reference(shape, values_of(a).data(), values_of(b).data(), c.data());
    for (std::size_t i = 0; i < 13 * 7 && biased; ++i) c[i] += bias[i % 7];
    CAPTURE(flags);
    CHECK(relative_l2(narrow_c, c) < 1e-6 * std::sqrt(31.0));
  }
}

TEST_CASE("a processor that multiplies pairs of bf16 has matrix products in bf16 as well") {
  if (!has_pair_product()) return skip_test("the CPU has no avx512_bf16");
  CHECK(has_bf16_gemm());
}

TEMPLATE_TEST_CASE("linear agrees with its fp64 twin, forward and backward", "", float, Bf16) {
  NEEDS_PRODUCTS_OF(TestType)
  const LinearShape shape{37, 24, 53, GENERATE(false, true)};
  const Values x = normal_values(37 * 24, 1), w = normal_values(24 * 53, 2);
  const Values b = normal_values(53, 3), dy = normal_values(37 * 53, 4);
  Values y(37 * 53), dx(37 * 24), dw = normal_values(24 * 53, 5), db = normal_values(53, 6);
  std::vector<float> fy(y.size()), fdx(dx.size()), fdw = narrow(dw), fdb = narrow(db);
  const auto ox = operands<TestType>(x), ow = operands<TestType>(w), ody = operands<TestType>(dy);
  linear_forward<TestType>(shape, ox, ow, narrow(b), fy);
  linear_backward<TestType>(shape, ox, ow, ody, fdx, fdw, fdb);
  const Values rx = values_of(ox), rw = values_of(ow), rdy = values_of(ody);
  linear_forward_reference(shape, rx, rw, b, y);
  linear_backward_reference(shape, rx, rw, rdy, dx, dw, db);
  CHECK(relative_l2(fy, y) < op_tolerance);
  CHECK(relative_l2(fdx, dx) < op_tolerance);
  CHECK(relative_l2(fdw, dw) < op_tolerance);
  CHECK(relative_l2(fdb, db) < op_tolerance);
}

TEST_CASE("the linear twin's gradients are those of its forward") {
  const LinearShape shape{3, 4, 5};
  Values x = normal_values(12, 1), w = normal_values(20, 2), b = normal_values(5, 3);
  const Values dy = normal_values(15, 4);
  Values dx(12), dw(20), db(5);
  linear_backward_reference(shape, x, w, dy, dx, dw, db);
  const auto loss = [&] {
    Values y(15);
    linear_forward_reference(shape, x, w, b, y);
    return dot(y, dy);
  };
  CHECK(relative_l2(dx, differences(x, loss)) < difference_tolerance);
  CHECK(relative_l2(dw, differences(w, loss)) < difference_tolerance);
  CHECK(relative_l2(db, differences(b, loss)) < difference_tolerance);
}

TEMPLATE_TEST_CASE("layer norm agrees with its fp64 twin, forward and backward, at any width", "",
                   float, Bf16) {
  for (const std::size_t width : {5, 16, 64, 100}) {
    const LayerNormShape shape{11, width};
    const std::size_t count = 11 * width;
    const Values x = normal_values(count, 1, 3), gamma = normal_values(width, 2);
    const Values beta = normal_values(width, 3), dy = normal_values(count, 4);
    Values y(count), dx = normal_values(count, 5), dgamma(width), dbeta(width);
    std::vector<TestType> fy(count);
    std::vector<float> fdx = narrow(dx), fdgamma(width), fdbeta(width), mean(11), rstd(11);
    layer_norm_forward<TestType>(shape, narrow(x), narrow(gamma), narrow(beta), fy, mean, rstd);
    layer_norm_backward(shape, narrow(x), narrow(gamma), mean, rstd, narrow(dy), fdx, fdgamma,
                        fdbeta);
    layer_norm_forward_reference(shape, x, gamma, beta, y);
    layer_norm_backward_reference(shape, x, gamma, dy, dx, dgamma, dbeta);
    CHECK(relative_l2(values_of(fy), y) < rounding<TestType>);
    CHECK(relative_l2(fdx, dx) < op_tolerance);
    CHECK(relative_l2(fdgamma, dgamma) < op_tolerance);
    CHECK(relative_l2(fdbeta, dbeta) < op_tolerance);
  }
}

TEST_CASE("the layer norm twin's gradients are those of its forward") {
  const LayerNormShape shape{3, 7};
  Values x = normal_values(21, 1), gamma = normal_values(7, 2), beta = normal_values(7, 3);
  const Values dy = normal_values(21, 4);
  Values dx(21), dgamma(7), dbeta(7);
  layer_norm_backward_reference(shape, x, gamma, dy, dx, dgamma, dbeta);
  const auto loss = [&] {
    Values y(21);
    layer_norm_forward_reference(shape, x, gamma, beta, y);
    return dot(y, dy);
  };
  CHECK(relative_l2(dx, differences(x, loss)) < difference_tolerance);
  CHECK(relative_l2(dgamma, differences(gamma, loss)) < difference_tolerance);
  CHECK(relative_l2(dbeta, differences(beta, loss)) < difference_tolerance);
}

TEMPLATE_TEST_CASE("GELU agrees with its fp64 twin, and the twin's gradient is that of its forward",
                   "", float, Bf16) {
  Values x = normal_values(1000, 1, 3);
  const Values dy = normal_values(1000, 2);
  Values y(1000), dx(1000);
  std::vector<TestType> fy(1000), fdx(1000);
  gelu_forward<TestType>(narrow(x), fy);
  gelu_backward<TestType>(narrow(x), narrow(dy), fdx);
  gelu_forward_reference(x, y);
  gelu_backward_reference(x, dy, dx);
  CHECK(relative_l2(values_of(fy), y) < rounding<TestType>);
  CHECK(relative_l2(values_of(fdx), dx) < rounding<TestType>);
  x.resize(50);
  const Values upstream(dy.begin(), dy.begin() + 50);
  dx.resize(50);
  const auto loss = [&] {
    Values out(50);
    gelu_forward_reference(x, out);
    return dot(out, upstream);
  };
  CHECK(relative_l2(dx, differences(x, loss)) < difference_tolerance);
}

TEMPLATE_TEST_CASE("attention agrees with its fp64 twin, at any shape and number of threads", "",
                   float, Bf16) {
  const AttentionShape shape = GENERATE(AttentionShape{2, 19, 3, 24}, AttentionShape{1, 64, 2, 64},
                                        AttentionShape{1, 97, 1, 40}, AttentionShape{3, 1, 2, 2});
  const int threads = GENERATE(1, 2);
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  const std::size_t rows = shape.batch * shape.context;
  const Values qkv = normal_values(rows * 3 * shape.width, 1);
  const Values dout = normal_values(rows * shape.width, 2);
  Values out(dout.size()), p(shape.probabilities()), dqkv(qkv.size());
  std::vector<TestType> fout(out.size()), fdqkv(dqkv.size());
  // What lies in the scratch before must not matter.
  std::vector<float> log_sums(shape.rows());
  std::vector<float> scratch(attention_scratch(shape), std::numeric_limits<float>::quiet_NaN());
  attention_forward<TestType>(shape, narrow(qkv), fout, log_sums, scratch);
  std::fill(scratch.begin(), scratch.end(), std::numeric_limits<float>::quiet_NaN());
  attention_backward<TestType>(shape, narrow(qkv), log_sums, narrow(dout), fdqkv, scratch);
  omp_set_num_threads(before);
  attention_forward_reference(shape, qkv, out, p);
  attention_backward_reference(shape, qkv, p, dout, dqkv);
  CAPTURE(shape.context, threads);
  // Where products read bf16, their operands were rounded before.
  const bool is_rounded = std::is_same_v<TestType, Bf16> && has_pair_product();
  const double tolerance = is_rounded ? 4.0 / 256 : rounding<TestType>;
  CHECK(relative_l2(values_of(fout), out) < tolerance);
  CHECK(relative_l2(values_of(fdqkv), dqkv) < tolerance);
}

TEST_CASE("products of pairs agree with three loops over the rounded operands") {
  if (!has_pair_product()) {
    skip_test("the CPU has no avx512_bf16");
    return;
  }
  const std::size_t odd = GENERATE(0u, 1u);  // one element of k is missing
  const std::size_t k = 40 - odd;
  const auto rounded = [](Values values) {
    for (double& value : values) value = to_float(to_bf16(static_cast<float>(value)));
    return values;
  };
  const Values a = normal_values(16 * k, 1), b = normal_values(k * 64, 2);
  std::vector<Bf16Pair> a_pairs(16 * 20), b_pairs(20 * 64);
  pair_columns(narrow(a).data(), k, 16, k, 2, a_pairs.data(), 20);
  pair_rows(narrow(b).data(), 64, k, 64, 1, b_pairs.data(), 64);
  Values c = normal_values(16 * 64, 3);
  auto added = narrow(c), fresh = narrow(c);
  TileProduct shape{16, 64, 20, 20, 1, 64, 64};
  tile_product(shape, a_pairs.data(), b_pairs.data(), fresh.data());
  shape.add = true;
  tile_product(shape, a_pairs.data(), b_pairs.data(), added.data());
  GemmShape same{.m = 16, .n = 64, .k = k};
  Values doubled = rounded(a);
  for (double& value : doubled) value *= 2;
  Values product(c.size());
  gemm_reference(same, doubled.data(), rounded(b).data(), product.data());
  same.add = true;
  gemm_reference(same, doubled.data(), rounded(b).data(), c.data());
  CHECK(relative_l2(fresh, product) < 1e-6 * std::sqrt(40.0));
  CHECK(relative_l2(added, c) < 1e-6 * std::sqrt(40.0));
}

TEST_CASE("tile products agree with three loops, with A as it is and transposed") {
  const Values a = normal_values(16 * 40, 1), b = normal_values(40 * 64, 2);
  for (const bool transposed : {false, true}) {
    Values c = normal_values(16 * 64, 3);
    auto added = narrow(c), fresh = narrow(c);
    TileProduct shape{16, 64, 40, transposed ? 1u : 40u, transposed ? 16u : 1u, 64, 64};
    tile_product(shape, narrow(a).data(), narrow(b).data(), fresh.data());
    shape.add = true;
    tile_product(shape, narrow(a).data(), narrow(b).data(), added.data());
    GemmShape same{.m = 16, .n = 64, .k = 40, .transpose_a = transposed};
    Values product(c.size());
    gemm_reference(same, a.data(), b.data(), product.data());
    same.add = true;
    gemm_reference(same, a.data(), b.data(), c.data());
    CHECK(relative_l2(fresh, product) < 1e-6 * std::sqrt(40.0));
    CHECK(relative_l2(added, c) < 1e-6 * std::sqrt(40.0));
  }
}

TEST_CASE(
    "the attention twin's gradients are those of its forward, and no position sees a later one") {
  const AttentionShape shape{1, 5, 2, 6};
  Values qkv = normal_values(5 * 18, 1);
  const Values dout = normal_values(5 * 6, 2);
  Values out(30), p(shape.probabilities()), dqkv(90);
  attention_forward_reference(shape, qkv, out, p);
  attention_backward_reference(shape, qkv, p, dout, dqkv);
  const auto loss = [&] {
    Values y(30), probabilities(shape.probabilities());
    attention_forward_reference(shape, qkv, y, probabilities);
    return dot(y, dout);
  };
  CHECK(relative_l2(dqkv, differences(qkv, loss)) < difference_tolerance);
  Values changed = qkv;
  for (std::size_t i = 4 * 18; i < 90; ++i) changed[i] += 1;
  Values later(30);
  attention_forward_reference(shape, changed, later, p);
  CHECK(std::equal(out.begin(), out.begin() + 24, later.begin()));
}

TEST_CASE("the embedding agrees with its fp64 twin and adds up repeated tokens") {
  const EmbeddingShape shape{3, 7, 9, 8};
  const auto tokens = random_tokens(3 * 8, 1);
  const Values table = normal_values(256 * 9, 2), positions = normal_values(7 * 9, 3);
  const Values dx = normal_values(3 * 7 * 9, 4);
  Values x(3 * 7 * 9), dtable(256 * 9), dpositions(7 * 9);
  std::vector<float> fx(x.size()), fdtable(dtable.size()), fdpositions(dpositions.size());
  embedding_forward(shape, tokens, narrow(table), narrow(positions), fx);
  embedding_backward(shape, tokens, narrow(dx), fdtable, fdpositions);
  embedding_forward_reference(shape, tokens, table, positions, x);
  embedding_backward_reference(shape, tokens, dx, dtable, dpositions);
  CHECK(relative_l2(fx, x) < op_tolerance);
  CHECK(relative_l2(fdtable, dtable) < op_tolerance);
  CHECK(relative_l2(fdpositions, dpositions) < op_tolerance);
}

TEMPLATE_TEST_CASE("cross-entropy agrees with its fp64 twin, whose gradient is that of its loss",
                   "", float, Bf16) {
  const auto targets = random_tokens(6, 1, 301);
  Values logits = normal_values(6 * 301, 2, 2);
  auto gradient = logits;
  auto flogits = narrow(logits);
  std::vector<TestType> fgradient(logits.size());
  const double loss = cross_entropy_reference(targets, 301, gradient);
  CHECK(std::abs(cross_entropy<TestType>(targets, 301, flogits, fgradient) / loss - 1) < 1e-6);
  CHECK(relative_l2(values_of(fgradient), gradient) < rounding<TestType>);
  const auto again = [&] {
    auto copy = logits;
    return cross_entropy_reference(targets, 301, copy);
  };
  CHECK(relative_l2(gradient, differences(logits, again)) < difference_tolerance);
}

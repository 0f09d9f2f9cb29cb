// Every layer against its fp64 twin, and every twin's backward against central differences of its
// forward.

#include <functional>
#include <numeric>

#include "runtime/layer/attention/attention.h"
#include "runtime/layer/cross_entropy/cross_entropy.h"
#include "runtime/layer/embedding/embedding.h"
#include "runtime/layer/gelu/gelu.h"
#include "runtime/layer/gemm/gemm.h"
#include "runtime/layer/layer_norm/layer_norm.h"
#include "runtime/layer/linear/linear.h"
#include "runtime/layer/vector_loops.h"
#include "tests/catch.h"
#include "tests/runtime/random_values.h"

using namespace muster;
using namespace muster::test;

namespace {

using Values = std::vector<double>;

constexpr double op_tolerance = 1e-5;
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

TEST_CASE("matrix products agree with three loops for every transposition and stride") {
  for (int flags = 0; flags < 4; ++flags) {
    GemmShape shape{.m = 13,
                    .n = 7,
                    .k = 31,
                    .transpose_a = (flags & 1) != 0,
                    .transpose_b = (flags & 2) != 0,
                    .lda = 40,
                    .ldb = 41,
                    .ldc = 11};
    const Values a = normal_values(40 * 31, 1);
    const Values b = normal_values(41 * 31, 2);
    Values c = normal_values(13 * 11, 3);
    auto narrow_c = narrow(c);
    gemm(shape, 0.5f, narrow(a).data(), narrow(b).data(), 2.0f, narrow_c.data());
    gemm_reference(shape, 0.5, widen(narrow(a)).data(), widen(narrow(b)).data(), 2.0, c.data());
    CHECK(relative_l2(narrow_c, c) < 1e-6 * std::sqrt(31.0));
  }
}

TEST_CASE("linear agrees with its fp64 twin, forward and backward") {
  const LinearShape shape{37, 24, 53};
  const Values x = normal_values(37 * 24, 1), w = normal_values(24 * 53, 2);
  const Values b = normal_values(53, 3), dy = normal_values(37 * 53, 4);
  Values y(37 * 53), dx(37 * 24), dw = normal_values(24 * 53, 5), db = normal_values(53, 6);
  std::vector<float> fy(y.size()), fdx(dx.size()), fdw = narrow(dw), fdb = narrow(db);
  linear_forward(shape, narrow(x), narrow(w), narrow(b), fy);
  linear_backward(shape, narrow(x), narrow(w), narrow(dy), fdx, fdw, fdb);
  linear_forward_reference(shape, x, w, b, y);
  linear_backward_reference(shape, x, w, dy, dx, dw, db);
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

TEST_CASE("layer norm agrees with its fp64 twin, forward and backward, at any width") {
  for (const std::size_t width : {5, 16, 64, 100}) {
    const LayerNormShape shape{11, width};
    const std::size_t count = 11 * width;
    const Values x = normal_values(count, 1, 3), gamma = normal_values(width, 2);
    const Values beta = normal_values(width, 3), dy = normal_values(count, 4);
    Values y(count), dx = normal_values(count, 5), dgamma(width), dbeta(width);
    std::vector<float> fy(count), fdx = narrow(dx), fdgamma(width), fdbeta(width), mean(11),
                                  rstd(11);
    layer_norm_forward(shape, narrow(x), narrow(gamma), narrow(beta), fy, mean, rstd);
    layer_norm_backward(shape, narrow(x), narrow(gamma), mean, rstd, narrow(dy), fdx, fdgamma,
                        fdbeta);
    layer_norm_forward_reference(shape, x, gamma, beta, y);
    layer_norm_backward_reference(shape, x, gamma, dy, dx, dgamma, dbeta);
    CHECK(relative_l2(fy, y) < op_tolerance);
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

TEST_CASE("GELU agrees with its fp64 twin, and the twin's gradient is that of its forward") {
  Values x = normal_values(1000, 1, 3);
  const Values dy = normal_values(1000, 2);
  Values y(1000), dx(1000);
  std::vector<float> fy(1000), fdx(1000);
  gelu_forward(narrow(x), fy);
  gelu_backward(narrow(x), narrow(dy), fdx);
  gelu_forward_reference(x, y);
  gelu_backward_reference(x, dy, dx);
  CHECK(relative_l2(fy, y) < op_tolerance);
  CHECK(relative_l2(fdx, dx) < op_tolerance);
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

TEST_CASE("attention agrees with its fp64 twin, forward and backward") {
  const AttentionShape shape{2, 19, 3, 24};
  const std::size_t rows = 2 * 19;
  const Values qkv = normal_values(rows * 72, 1), dout = normal_values(rows * 24, 2);
  Values out(rows * 24), p(shape.probabilities()), dqkv(rows * 72);
  std::vector<float> fout(out.size()), fp(p.size()), fdqkv(dqkv.size()), scratch(19 * 19);
  attention_forward(shape, narrow(qkv), fout, fp);
  attention_backward(shape, narrow(qkv), fp, narrow(dout), fdqkv, scratch);
  attention_forward_reference(shape, qkv, out, p);
  attention_backward_reference(shape, qkv, p, dout, dqkv);
  CHECK(relative_l2(fout, out) < op_tolerance);
  CHECK(relative_l2(fp, p) < op_tolerance);
  CHECK(relative_l2(fdqkv, dqkv) < op_tolerance);
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

TEST_CASE("cross-entropy agrees with its fp64 twin, and the twin's gradient is that of its loss") {
  const auto targets = random_tokens(6, 1, 301);
  Values logits = normal_values(6 * 301, 2, 2);
  auto gradient = logits;
  auto fgradient = narrow(logits);
  const double loss = cross_entropy_reference(targets, 301, gradient);
  CHECK(std::abs(cross_entropy(targets, 301, fgradient) / loss - 1) < 1e-6);
  CHECK(relative_l2(fgradient, gradient) < op_tolerance);
  const auto again = [&] {
    auto copy = logits;
    return cross_entropy_reference(targets, 301, copy);
  };
  CHECK(relative_l2(gradient, differences(logits, again)) < difference_tolerance);
}

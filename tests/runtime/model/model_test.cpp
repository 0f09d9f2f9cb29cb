#include "runtime/model/gpt.h"

#include <algorithm>
#include <numeric>

#include "runtime/layer/gemm.h"
#include "tests/catch.h"
#include "tests/runtime/layer/reference.h"
#include "tests/runtime/random_values.h"
#include "tests/runtime/whole_gpt.h"
#include "tests/skip.h"

using namespace muster;
using namespace muster::test;

namespace {

const GptShape small{2, 16, 2, 8};

}  // namespace

TEST_CASE("a model has the parameters that its shape says, in the names of GPT-2") {
  const FlatSpace space = gpt_flat_space({2, 128, 4, 64});
  std::uint64_t parameters = 0;
  for (const FlatParameter& param : space.params) {
    parameters += param.size();
    CHECK(param.offset % 1024 == 0);
    CHECK(param.decay == (param.shape.size() == 2));
  }
  CHECK(parameters == 437760);
  CHECK(space.numel % 1024 == 0);
  CHECK(space.params[0].name == "wte.weight");
  CHECK(space.params[2 + 12 + 2].name == "h.1.attn.c_attn.weight");
}

TEST_CASE("a head of its own is one more matrix, as wide as the vocabulary") {
  const FlatSpace tied = gpt_flat_space({2, 128, 4, 64, 1000});
  const FlatSpace untied = gpt_flat_space({2, 128, 4, 64, 1000, false});
  CHECK(tied.params[0].shape == std::vector<std::uint64_t>{1000, 128});
  REQUIRE(untied.params.size() == tied.params.size() + 1);
  CHECK(untied.params.back().name == "lm_head.weight");
  CHECK(untied.params.back().shape == std::vector<std::uint64_t>{1000, 128});
}

TEST_CASE("shapes that no model can have are refused in words") {
  CHECK(gpt_shape_fault({2, 128, 4, 64}).empty());
  CHECK(gpt_shape_fault({2, 128, 3, 64}) == "--heads: 3 does not divide --width 128");
  CHECK_FALSE(gpt_shape_fault({0, 128, 4, 64}).empty());
  CHECK_FALSE(gpt_shape_fault({2, 0, 4, 64}).empty());
  CHECK_FALSE(gpt_shape_fault({2, 128, 0, 64}).empty());
  CHECK_FALSE(gpt_shape_fault({2, 128, 4, 0}).empty());
  CHECK_FALSE(gpt_shape_fault({2, 128, 4, 64, 0}).empty());
}

TEST_CASE("initial weights depend on the seed alone and have the deviations of GPT-2") {
  const GptShape shape{2, 128, 4, 64};
  const FlatSpace space = gpt_flat_space(shape);
  std::vector<float> one(space.numel), same(space.numel, 3.0f), other(space.numel);
  initialize_gpt(shape, space, 1, one);
  initialize_gpt(shape, space, 1, same);
  initialize_gpt(shape, space, 2, other);
  CHECK(one == same);
  CHECK(one != other);
  const auto deviation = [&](std::size_t index) {
    const auto values =
        std::span(one).subspan(space.params[index].offset, space.params[index].size());
    const double squares = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
    return std::sqrt(squares / static_cast<double>(values.size()));
  };
  CHECK(is_near(deviation(0), 0.02, 0.02));
  CHECK(is_near(deviation(2 + 4), 0.01, 0.02));  // attn.c_proj.weight, 0.02 / sqrt(4)
  CHECK(deviation(2) == 1);                      // ln_1.weight
  CHECK(deviation(3) == 0);                      // ln_1.bias
}

TEST_CASE("a part of the initial weights is that of the whole, wherever it is cut") {
  const GptShape shape{2, 48, 2, 8, 100, GENERATE(true, false)};
  const FlatSpace space = gpt_flat_space(shape);
  std::vector<float> whole(space.numel), joined(space.numel);
  initialize_gpt(shape, space, 1, whole);
  for (std::uint64_t lo = 0; lo < space.numel; lo += 3 * space.align) {
    const ElementRange range{lo, std::min(lo + 3 * space.align, space.numel)};
    initialize_gpt(shape, space, 1, range, std::span(joined).subspan(lo, range.size()));
  }
  CHECK(joined == whole);
}

TEST_CASE("blocks of a model are the embeddings, its layers, and norm and head") {
  const GptShape shape{2, 48, 2, 8, 100, GENERATE(true, false)};
  const FlatSpace space = gpt_flat_space(shape);
  const auto blocks = gpt_blocks(shape, space);
  REQUIRE(blocks.size() == 4);
  CHECK(blocks[0] == ElementRange{0, space.params[2].offset});
  CHECK(blocks[1] == ElementRange{space.params[2].offset, space.params[14].offset});
  CHECK(blocks[3] == ElementRange{space.params[26].offset, space.numel});
}

TEST_CASE("the model's loss and gradient agree with central differences of the fp64 twin") {
  const bool tied = GENERATE(true, false);
  CAPTURE(tied);
  const GptShape shape{2, 16, 2, 8, 37, tied};
  const FlatSpace space = gpt_flat_space(shape);
  // Larger weights than at the start, so that every path carries a gradient worth comparing.
  std::vector<float> weights = narrow(normal_values(space.numel, 1, 0.3));
  const auto tokens = random_tokens(3 * 9, 2, 37);
  std::vector<float> gradient(space.numel, 0.0f);
  WholeGpt model(shape, 3);
  model.use(weights);
  const double loss = model.accumulate(tokens, gradient);
  auto wide = widen(weights);
  CHECK(std::abs(loss / gpt_loss_reference(shape, 3, wide, tokens) - 1) < 1e-6);
  for (const FlatParameter& param : space.params) {
    std::vector<double> expected, got;
    const std::uint64_t stride = std::max<std::uint64_t>(1, param.size() / 12);
    for (std::uint64_t i = param.offset; i < param.offset + param.size(); i += stride) {
      const double kept = wide[i];
      wide[i] = kept + 1e-4;
      const double above = gpt_loss_reference(shape, 3, wide, tokens);
      wide[i] = kept - 1e-4;
      const double below = gpt_loss_reference(shape, 3, wide, tokens);
      wide[i] = kept;
      expected.push_back((above - below) / 2e-4);
      got.push_back(gradient[i]);
    }
    CAPTURE(param.name);
    const double norm =
        std::sqrt(std::inner_product(expected.begin(), expected.end(), expected.begin(), 0.0));
    if (norm > 1e-3) CHECK(relative_l2(got, expected) < 2e-5);
  }
}

TEST_CASE("gradients of micro-batches add up, and the same input gives the same bits") {
  const FlatSpace space = gpt_flat_space(small);
  std::vector<float> weights(space.numel);
  initialize_gpt(small, space, 1, weights);
  const auto tokens = random_tokens(2 * 9, 3);
  WholeGpt model(small, 2);
  model.use(weights);
  std::vector<float> once(space.numel, 0.0f), again(space.numel, 0.0f), twice(space.numel, 0.0f);
  const double loss = model.accumulate(tokens, once);
  CHECK(model.accumulate(tokens, again) == loss);
  CHECK(once == again);
  model.accumulate(tokens, twice);
  model.accumulate(tokens, twice);
  std::vector<double> expected;
  for (const float value : once) expected.push_back(2.0 * value);
  CHECK(relative_l2(twice, expected) < 1e-6);
}

TEST_CASE("a fresh gradient may hold anything before") {
  const GptShape shape{2, 16, 2, 8, 37, GENERATE(true, false)};
  const FlatSpace space = gpt_flat_space(shape);
  const std::vector<float> weights = narrow(normal_values(space.numel, 1, 0.3));
  const auto tokens = random_tokens(2 * 9, 3, 37);
  WholeGpt model(shape, 2);
  model.use(weights);
  std::vector<float> added(space.numel, 0.0f), fresh(space.numel, 7.0f);
  CHECK(model.accumulate(tokens, added) == model.accumulate(tokens, fresh, true));
  for (const FlatParameter& param : space.params) {
    const auto at = static_cast<std::ptrdiff_t>(param.offset);
    const auto end = at + static_cast<std::ptrdiff_t>(param.size());
    CAPTURE(param.name);
    CHECK(std::equal(added.begin() + at, added.begin() + end, fresh.begin() + at));
  }
}

TEST_CASE("computing layers again in backward changes no bit") {
  const auto precision = GENERATE(Precision::fp32, Precision::bf16);
  if (precision == Precision::bf16 && !has_bf16_gemm()) return;
  const FlatSpace space = gpt_flat_space(small);
  const std::vector<float> weights = narrow(normal_values(space.numel, 1, 0.3));
  const auto tokens = random_tokens(2 * 9, 3);
  std::vector<float> kept(space.numel, 0.0f), again(space.numel, 0.0f);
  WholeGpt keeps(small, 2, {precision, false}), recomputes(small, 2, {precision, true});
  keeps.use(weights);
  recomputes.use(weights);
  CHECK(keeps.accumulate(tokens, kept) == recomputes.accumulate(tokens, again));
  CHECK(kept == again);
}

TEST_CASE("bf16 products keep the gradient of the fp32 model to two percent") {
  if (!has_bf16_gemm()) {
    skip_test("no bf16 matrix products on this processor");
    return;
  }
  const GptShape shape{2, 64, 2, 32};
  const FlatSpace space = gpt_flat_space(shape);
  std::vector<float> weights(space.numel);
  initialize_gpt(shape, space, 1, weights);
  const auto tokens = random_tokens(4 * 33, 3);
  std::vector<float> exact(space.numel, 0.0f), rounded(space.numel, 0.0f);
  WholeGpt fp32(shape, 4), bf16(shape, 4, {Precision::bf16, false});
  fp32.use(weights);
  bf16.use(weights);
  const double loss = fp32.accumulate(tokens, exact);
  CHECK(is_near(bf16.accumulate(tokens, rounded), loss, 1e-3));
  CHECK(rounded != exact);
  for (const FlatParameter& param : space.params) {
    const auto part = [&](const std::vector<float>& all) {
      return std::span(all).subspan(param.offset, param.size());
    };
    CAPTURE(param.name);
    const std::vector<double> expected(part(exact).begin(), part(exact).end());
    CHECK(relative_l2(part(rounded), expected) < 2e-2);
  }
}

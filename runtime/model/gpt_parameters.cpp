#include "runtime/model/gpt.h"

#include <algorithm>
#include <cmath>

#include "runtime/memory/philox.h"

namespace muster {
namespace {

void add_layer(FlatSpace& space, std::size_t layer, std::uint64_t c) {
  const std::string prefix = "h." + std::to_string(layer) + ".";
  space.add(prefix + "ln_1.weight", {c}, false);
  space.add(prefix + "ln_1.bias", {c}, false);
  space.add(prefix + "attn.c_attn.weight", {c, 3 * c}, true);
  space.add(prefix + "attn.c_attn.bias", {3 * c}, false);
  space.add(prefix + "attn.c_proj.weight", {c, c}, true);
  space.add(prefix + "attn.c_proj.bias", {c}, false);
  space.add(prefix + "ln_2.weight", {c}, false);
  space.add(prefix + "ln_2.bias", {c}, false);
  space.add(prefix + "mlp.c_fc.weight", {c, 4 * c}, true);
  space.add(prefix + "mlp.c_fc.bias", {4 * c}, false);
  space.add(prefix + "mlp.c_proj.weight", {4 * c, c}, true);
  space.add(prefix + "mlp.c_proj.bias", {c}, false);
}

// Elements first, first + 1, ... of a parameter; `first` is even, as two are drawn at a time.
void fill_normal(std::uint64_t seed, std::size_t parameter, double deviation, std::uint64_t first,
                 std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const auto words = random_block(seed, RandomPurpose::initial_weights,
                                    static_cast<std::uint32_t>(parameter), (first + i) / 2);
    const auto pair = normal_pair(words);
    values[i] = static_cast<float>(pair[0] * deviation);
    if (i + 1 < values.size()) values[i + 1] = static_cast<float>(pair[1] * deviation);
  }
}

}  // namespace

std::string gpt_shape_fault(const GptShape& shape) {
  if (shape.layers == 0 || shape.layers > 1000) return "--layers: expected 1 to 1000";
  if (shape.context == 0 || shape.context > 65536) return "--context: expected 1 to 65536";
  if (shape.width == 0 || shape.width > 65536) return "--width: expected 1 to 65536";
  if (shape.vocabulary == 0 || shape.vocabulary > 1u << 24) {
    return "--vocabulary: expected 1 to " + std::to_string(1u << 24);
  }
  if (shape.heads == 0 || shape.width % shape.heads != 0) {
    return "--heads: " + std::to_string(shape.heads) + " does not divide --width " +
           std::to_string(shape.width);
  }
  return "";
}

FlatSpace gpt_flat_space(const GptShape& shape) {
  FlatSpace space;
  space.add("wte.weight", {shape.vocabulary, shape.width}, true);
  space.add("wpe.weight", {shape.context, shape.width}, true);
  for (std::size_t layer = 0; layer < shape.layers; ++layer) add_layer(space, layer, shape.width);
  space.add("ln_f.weight", {shape.width}, false);
  space.add("ln_f.bias", {shape.width}, false);
  if (!shape.tied) space.add("lm_head.weight", {shape.vocabulary, shape.width}, true);
  return space;
}

std::vector<ElementRange> gpt_blocks(const GptShape& shape, const FlatSpace& space) {
  std::vector<ElementRange> blocks;
  const auto end_at = [&](std::uint64_t end) {
    blocks.push_back({blocks.empty() ? 0 : blocks.back().hi, end});
  };
  for (std::size_t layer = 0; layer < shape.layers; ++layer) {
    end_at(space.params[gpt_parameter::of_layer(layer, gpt_parameter::ln_1_weight)].offset);
  }
  end_at(space.params[gpt_parameter::ln_f_weight(shape.layers)].offset);
  end_at(space.numel);
  return blocks;
}

void initialize_gpt(const GptShape& shape, const FlatSpace& space, std::uint64_t seed,
                    const ElementRange& range, std::span<float> weights) {
  std::fill(weights.begin(), weights.end(), 0.0f);
  const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(shape.layers));
  for (std::size_t index = 0; index < space.params.size(); ++index) {
    const FlatParameter& param = space.params[index];
    const std::uint64_t lo = std::max(param.offset, range.lo);
    const std::uint64_t hi = std::min(param.offset + param.size(), range.hi);
    if (lo >= hi) continue;
    const auto values = weights.subspan(lo - range.lo, hi - lo);
    if (param.shape.size() == 2) {
      const bool into_residual = param.name.ends_with("c_proj.weight");
      fill_normal(seed, index, into_residual ? residual : 0.02, lo - param.offset, values);
    } else if (param.name.ends_with(".weight")) {
      std::fill(values.begin(), values.end(), 1.0f);
    }
  }
}

}  // namespace muster

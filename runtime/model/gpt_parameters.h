// The order of a GPT's parameters in its flat space, for the files of runtime/model.
#pragma once

#include <cstddef>

#include "runtime/model/gpt.h"

namespace muster {

// Indices into FlatSpace::params.
namespace gpt_parameter {

inline constexpr std::size_t wte = 0;
inline constexpr std::size_t wpe = 1;
inline constexpr std::size_t per_layer = 12;

// clang-format off
enum InLayer : std::size_t {
  ln_1_weight, ln_1_bias, attn_weight, attn_bias, attn_proj_weight, attn_proj_bias,
  ln_2_weight, ln_2_bias, fc_weight, fc_bias, fc_proj_weight, fc_proj_bias,
};
// clang-format on

inline constexpr std::size_t of_layer(std::size_t layer, InLayer which) {
  return 2 + per_layer * layer + which;
}
inline constexpr std::size_t ln_f_weight(std::size_t layers) {
  return 2 + per_layer * layers;
}
inline constexpr std::size_t ln_f_bias(std::size_t layers) {
  return ln_f_weight(layers) + 1;
}
inline constexpr std::size_t head(const GptShape& shape) {
  return shape.tied ? wte : ln_f_bias(shape.layers) + 1;
}

}  // namespace gpt_parameter
}  // namespace muster

// A GPT: pre-LayerNorm decoder with learned positions, its head tied to the token
// embedding or a matrix of its own.
//
//   x = wte[token] + wpe[position]
//   per layer   x += c_proj(attention(c_attn(ln_1(x)))),   x += c_proj(gelu(c_fc(ln_2(x))))
//   logits = ln_f(x) head^T,   loss = cross-entropy of the next token
//
// Parameters bear the names and the [in, out] shapes of Hugging Face's GPT-2, so that exported
// weights load there as they are. Matrices start as N(0, 0.02), the two projections into the
// residual stream as N(0, 0.02 / sqrt(2 layers)) (GPT-2), biases 0, LayerNorm gains 1. Weight decay
// applies to matrices only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/flat_space.h"
#include "runtime/layer/layers.h"

namespace muster {

// Where a model finds the weights of its blocks, and the memory for their gradients.
//
// A block is a run of neighbours in the flat space that is used at one time (gpt_blocks). The model
// takes a block before it computes with it and gives it back after, so that a store may hold few of
// them at a time, move them meanwhile, and know which gradients are complete. Nothing is taken
// twice at a time: a store may throw std::logic_error. One thread.
class BlockStore {
 public:
  virtual ~BlockStore() = default;

  // The weights of a block, its padding included, until weights_done().
  virtual std::span<const float> weights(std::size_t block) = 0;
  virtual void weights_done(std::size_t block) = 0;

  // Memory for the gradient of a block, its padding included. After gradient_done() it holds the
  // sum of all that was added since the last fresh one, and this pass adds no more.
  virtual std::span<float> gradient(std::size_t block) = 0;
  virtual void gradient_done(std::size_t block) = 0;
};

struct GptShape {
  std::size_t layers = 2;
  std::size_t width = 128;
  std::size_t heads = 4;
  std::size_t context = 64;
  std::size_t vocabulary = 256;
  bool tied = true;  // the head is the token embedding
};

// The sentence that says why no model can have this shape; empty when one can.
std::string gpt_shape_fault(const GptShape& shape);

// Where every parameter lies: wte, wpe, per layer 12 tensors, ln_f, lm_head unless it is tied.
FlatSpace gpt_flat_space(const GptShape& shape);

// The blocks of the space, in its order: embeddings, a block per layer, and the final norm with the
// head, if that is one of its own. Together they are the whole space.
std::vector<ElementRange> gpt_blocks(const GptShape& shape, const FlatSpace& space);

// Fills `weights` with elements `range` of the model that the seed makes; padding is 0. The range
// begins and ends at multiples of space.align.
void initialize_gpt(const GptShape& shape, const FlatSpace& space, std::uint64_t seed,
                    const ElementRange& range, std::span<float> weights);
inline void initialize_gpt(const GptShape& shape, const FlatSpace& space, std::uint64_t seed,
                           std::span<float> weights) {
  initialize_gpt(shape, space, seed, {0, space.numel}, weights);
}

// What matrix products read. Sums, the residual stream, softmaxes and gradients are fp32 in both.
enum class Precision { fp32, bf16 };

struct GptSettings {
  Precision precision = Precision::fp32;
  bool recompute = false;  // forward of a layer again in its backward, instead of keeping all
  // bf16: a layer's weights are rounded whenever they are taken, instead of once and kept.
  bool round_again = false;
};

// Forward and backward of micro-batches of a fixed number of sequences. Owns all activations;
// allocates nothing after construction. One thread at a time, which may have OpenMP threads.
class Gpt {
 public:
  virtual ~Gpt() = default;

  // `tokens` holds sequences x (context + 1), each below the vocabulary: inputs and, shifted by
  // one, targets. Adds the gradient of the summed loss to that of the store, and returns that sum
  // in nats. A fresh gradient may hold anything, which is overwritten.
  //
  // Blocks are taken from the first to the last in forward, from the last to the first in backward.
  // The embeddings are the last to be done; of a tied model they are taken throughout, as they are
  // the head too.
  virtual double accumulate(std::span<const Token> tokens, BlockStore& store, bool fresh) = 0;

  // Says that the store holds other weights than before.
  virtual void weights_changed() = 0;
};

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

std::unique_ptr<Gpt> make_gpt(const GptShape& shape, std::size_t sequences,
                              const GptSettings& settings);

}  // namespace muster

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

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/checkpoint/flat_space.h"
#include "runtime/layer/embedding/embedding.h"

namespace muster {

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

// Fills `weights` (space.numel elements) from the seed; padding is 0.
void initialize_gpt(const GptShape& shape, const FlatSpace& space, std::uint64_t seed,
                    std::span<float> weights);

// What matrix products read. Sums, the residual stream, softmaxes and gradients are fp32 in both.
enum class Precision { fp32, bf16 };

struct GptSettings {
  Precision precision = Precision::fp32;
  bool recompute = false;  // forward of a layer again in its backward, instead of keeping all
};

// Forward and backward of micro-batches of a fixed number of sequences. Owns all activations;
// allocates nothing after construction. One thread at a time, which may have OpenMP threads.
class Gpt {
 public:
  Gpt(const GptShape& shape, std::size_t sequences, const GptSettings& settings = {});
  ~Gpt();

  // Takes the weights (space.numel long, kept by reference) for the calls that follow; again after
  // every change of them.
  void use(std::span<const float> weights);

  // `tokens` holds sequences x (context + 1), each below the vocabulary: inputs and, shifted by
  // one, targets. Adds the gradient of the summed loss to `gradient`, space.numel long, and returns
  // that sum in nats. A fresh gradient may hold anything; all but its padding is overwritten.
  double accumulate(std::span<const Token> tokens, std::span<float> gradient, bool fresh = false);

  class Pass;  // for one precision

 private:
  std::unique_ptr<Pass> pass_;
};

// The same loss in fp64 by the reference layers; slow, for tests.
double gpt_loss_reference(const GptShape& shape, std::size_t sequences,
                          std::span<const double> weights, std::span<const Token> tokens);

}  // namespace muster

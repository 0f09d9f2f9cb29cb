#include <vector>

#include "runtime/layer/attention.h"
#include "runtime/layer/cross_entropy.h"
#include "runtime/layer/gelu.h"
#include "runtime/layer/gemm.h"
#include "runtime/layer/layer_norm.h"
#include "runtime/layer/linear.h"
#include "runtime/model/gpt.h"
#include "runtime/model/gpt_parameters.h"

namespace muster {
namespace {

using namespace gpt_parameter;
using Buffer = std::vector<double>;

// One forward pass; buffers are made where they are needed, speed does not matter.
struct ReferencePass {
  GptShape shape;
  FlatSpace space;
  std::size_t sequences;
  std::size_t rows;
  std::span<const double> weights;

  std::span<const double> weight(std::size_t index) const {
    const FlatParameter& param = space.params[index];
    return weights.subspan(param.offset, param.size());
  }

  Buffer normed(const Buffer& x, std::size_t gamma) const {
    Buffer y(x.size());
    layer_norm_forward_reference({rows, shape.width}, x, weight(gamma), weight(gamma + 1), y);
    return y;
  }

  Buffer linear(const Buffer& x, std::size_t in, std::size_t out, std::size_t matrix) const {
    Buffer y(rows * out);
    linear_forward_reference({rows, in, out}, x, weight(matrix), weight(matrix + 1), y);
    return y;
  }

  void layer(std::size_t index, Buffer& x) const {
    const std::size_t c = shape.width;
    const AttentionShape attention{sequences, shape.context, shape.heads, c};
    const Buffer qkv =
        linear(normed(x, of_layer(index, ln_1_weight)), c, 3 * c, of_layer(index, attn_weight));
    Buffer attended(rows * c);
    Buffer probabilities(attention.probabilities());
    attention_forward_reference(attention, qkv, attended, probabilities);
    add(linear(attended, c, c, of_layer(index, attn_proj_weight)), x);
    const Buffer hidden =
        linear(normed(x, of_layer(index, ln_2_weight)), c, 4 * c, of_layer(index, fc_weight));
    Buffer activated(hidden.size());
    gelu_forward_reference(hidden, activated);
    add(linear(activated, 4 * c, c, of_layer(index, fc_proj_weight)), x);
  }

  static void add(const Buffer& branch, Buffer& x) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += branch[i];
  }
};

}  // namespace

double gpt_loss_reference(const GptShape& shape, std::size_t sequences,
                          std::span<const double> weights, std::span<const Token> tokens) {
  const std::size_t rows = sequences * shape.context;
  const ReferencePass pass{shape, gpt_flat_space(shape), sequences, rows, weights};
  Buffer x(rows * shape.width);
  embedding_forward_reference({sequences, shape.context, shape.width, shape.context + 1}, tokens,
                              pass.weight(wte), pass.weight(wpe), x);
  for (std::size_t index = 0; index < shape.layers; ++index) pass.layer(index, x);
  const Buffer normed = pass.normed(x, ln_f_weight(shape.layers));
  Buffer logits(rows * shape.vocabulary);
  gemm_reference({.m = rows,
                  .n = shape.vocabulary,
                  .k = shape.width,
                  .transpose_b = true,
                  .lda = shape.width,
                  .ldb = shape.width,
                  .ldc = shape.vocabulary},
                 normed.data(), pass.weight(head(shape)).data(), logits.data());
  std::vector<Token> targets(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    targets[row] = tokens[row / shape.context * (shape.context + 1) + row % shape.context + 1];
  }
  return cross_entropy_reference(targets, shape.vocabulary, logits);
}

}  // namespace muster

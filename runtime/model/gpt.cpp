#include "runtime/model/gpt.h"

#include <algorithm>

#include "runtime/layer/attention/attention.h"
#include "runtime/layer/cross_entropy/cross_entropy.h"
#include "runtime/layer/gelu/gelu.h"
#include "runtime/layer/gemm/gemm.h"
#include "runtime/layer/layer_norm/layer_norm.h"
#include "runtime/layer/linear/linear.h"
#include "runtime/layer/vector_loops.h"
#include "runtime/model/gpt_parameters.h"

namespace muster {
namespace {

using namespace gpt_parameter;
using Buffer = std::vector<float>;

MUSTER_VECTOR_CLONES
void add_into(const float* a, std::size_t count, float* sum) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += a[i];
}

// What backward needs of one layer's forward. M rows = sequences x context.
struct LayerActivations {
  Buffer x_attention, normed_1, mean_1, rstd_1;  // [M, C], [M, C], [M], [M]
  Buffer qkv, probabilities, attended;           // [M, 3C], [sequences, heads, T, T], [M, C]
  Buffer x_mlp, normed_2, mean_2, rstd_2;        // as the first row
  Buffer hidden, activated;                      // [M, 4C]
};

}  // namespace

struct Gpt::Workspace {
  Workspace(const GptShape& model_shape, std::size_t sequences);

  double forward(std::span<const Token> tokens);
  void backward(std::span<const Token> tokens);
  void layer_forward(std::size_t layer);
  void layer_backward(std::size_t layer);

  std::span<const float> weight(std::size_t index) const {
    const FlatParameter& param = space.params[index];
    return weights.subspan(param.offset, param.size());
  }
  std::span<float> gradient_of(std::size_t index) const {
    const FlatParameter& param = space.params[index];
    return gradient.subspan(param.offset, param.size());
  }
  LinearShape linear(std::size_t in, std::size_t out) const { return {rows, in, out}; }

  GptShape shape;
  FlatSpace space;
  std::size_t rows;
  AttentionShape attention;
  LayerNormShape norm;
  EmbeddingShape embedding;
  std::vector<LayerActivations> layers;
  Buffer x, normed_f, mean_f, rstd_f, logits;  // [M, C], [M, C], [M], [M], [M, vocabulary]
  Buffer dx, dnarrow, dqkv, dhidden;  // [M, C], [M, C], [M, 3C], [M, 4C]
  Buffer branch, scratch;             // [M, C], [T, T]
  std::vector<Token> targets;  // [M]
  std::span<const float> weights;
  std::span<float> gradient;
};

Gpt::Workspace::Workspace(const GptShape& model_shape, std::size_t sequences)
    : shape(model_shape),
      space(gpt_flat_space(model_shape)),
      rows(sequences * model_shape.context),
      attention{sequences, shape.context, shape.heads, shape.width},
      norm{rows, shape.width},
      embedding{sequences, shape.context, shape.width, shape.context + 1},
      layers(shape.layers),
      targets(rows) {
  const std::size_t wide = rows * shape.width;
  for (LayerActivations& layer : layers) {
    for (Buffer* buffer :
         {&layer.x_attention, &layer.normed_1, &layer.attended, &layer.x_mlp, &layer.normed_2}) {
      buffer->resize(wide);
    }
    for (Buffer* buffer : {&layer.mean_1, &layer.rstd_1, &layer.mean_2, &layer.rstd_2}) {
      buffer->resize(rows);
    }
    layer.qkv.resize(3 * wide);
    layer.probabilities.resize(attention.probabilities());
    layer.hidden.resize(4 * wide);
    layer.activated.resize(4 * wide);
  }
  for (Buffer* buffer : {&x, &normed_f, &dx, &dnarrow, &branch}) buffer->resize(wide);
  mean_f.resize(rows);
  rstd_f.resize(rows);
  logits.resize(rows * shape.vocabulary);
  dqkv.resize(3 * wide);
  dhidden.resize(4 * wide);
  scratch.resize(shape.context * shape.context);
}

void Gpt::Workspace::layer_forward(std::size_t index) {
  LayerActivations& layer = layers[index];
  const auto w = [&](InLayer which) { return weight(of_layer(index, which)); };
  const std::size_t c = shape.width;
  layer.x_attention = x;
  layer_norm_forward(norm, x, w(ln_1_weight), w(ln_1_bias), layer.normed_1, layer.mean_1,
                     layer.rstd_1);
  linear_forward(linear(c, 3 * c), layer.normed_1, w(attn_weight), w(attn_bias), layer.qkv);
  attention_forward(attention, layer.qkv, layer.attended, layer.probabilities);
  linear_forward(linear(c, c), layer.attended, w(attn_proj_weight), w(attn_proj_bias), branch);
  add_into(branch.data(), x.size(), x.data());
  layer.x_mlp = x;
  layer_norm_forward(norm, x, w(ln_2_weight), w(ln_2_bias), layer.normed_2, layer.mean_2,
                     layer.rstd_2);
  linear_forward(linear(c, 4 * c), layer.normed_2, w(fc_weight), w(fc_bias), layer.hidden);
  gelu_forward(layer.hidden, layer.activated);
  linear_forward(linear(4 * c, c), layer.activated, w(fc_proj_weight), w(fc_proj_bias), branch);
  add_into(branch.data(), x.size(), x.data());
}

double Gpt::Workspace::forward(std::span<const Token> tokens) {
  embedding_forward(embedding, tokens, weight(wte), weight(wpe), x);
  for (std::size_t index = 0; index < shape.layers; ++index) layer_forward(index);
  layer_norm_forward(norm, x, weight(ln_f_weight(shape.layers)), weight(ln_f_bias(shape.layers)),
                     normed_f, mean_f, rstd_f);
  gemm({.m = rows,
        .n = shape.vocabulary,
        .k = shape.width,
        .transpose_b = true,
        .lda = shape.width,
        .ldb = shape.width,
        .ldc = shape.vocabulary},
       1, normed_f.data(), weight(head(shape)).data(), 0, logits.data());
  return cross_entropy(targets, shape.vocabulary, logits);
}

// dx holds the gradient of the residual stream, from the end of the layer to its beginning.
void Gpt::Workspace::layer_backward(std::size_t index) {
  LayerActivations& layer = layers[index];
  const auto w = [&](InLayer which) { return weight(of_layer(index, which)); };
  const auto d = [&](InLayer which) { return gradient_of(of_layer(index, which)); };
  const std::size_t c = shape.width;
  linear_backward(linear(4 * c, c), layer.activated, w(fc_proj_weight), dx, dhidden,
                  d(fc_proj_weight), d(fc_proj_bias));
  gelu_backward(layer.hidden, dhidden, dhidden);
  linear_backward(linear(c, 4 * c), layer.normed_2, w(fc_weight), dhidden, dnarrow, d(fc_weight),
                  d(fc_bias));
  layer_norm_backward(norm, layer.x_mlp, w(ln_2_weight), layer.mean_2, layer.rstd_2, dnarrow, dx,
                      d(ln_2_weight), d(ln_2_bias));
  linear_backward(linear(c, c), layer.attended, w(attn_proj_weight), dx, dnarrow,
                  d(attn_proj_weight), d(attn_proj_bias));
  attention_backward(attention, layer.qkv, layer.probabilities, dnarrow, dqkv, scratch);
  linear_backward(linear(c, 3 * c), layer.normed_1, w(attn_weight), dqkv, dnarrow, d(attn_weight),
                  d(attn_bias));
  layer_norm_backward(norm, layer.x_attention, w(ln_1_weight), layer.mean_1, layer.rstd_1, dnarrow,
                      dx, d(ln_1_weight), d(ln_1_bias));
}

void Gpt::Workspace::backward(std::span<const Token> tokens) {
  const std::size_t c = shape.width;
  gemm({.m = rows, .n = c, .k = shape.vocabulary, .lda = shape.vocabulary, .ldb = c, .ldc = c}, 1,
       logits.data(), weight(head(shape)).data(), 0, dnarrow.data());
  gemm({.m = shape.vocabulary,
        .n = c,
        .k = rows,
        .transpose_a = true,
        .lda = shape.vocabulary,
        .ldb = c,
        .ldc = c},
       1, logits.data(), normed_f.data(), 1, gradient_of(head(shape)).data());
  std::fill(dx.begin(), dx.end(), 0.0f);
  layer_norm_backward(norm, x, weight(ln_f_weight(shape.layers)), mean_f, rstd_f, dnarrow, dx,
                      gradient_of(ln_f_weight(shape.layers)), gradient_of(ln_f_bias(shape.layers)));
  for (std::size_t index = shape.layers; index-- > 0;) layer_backward(index);
  embedding_backward(embedding, tokens, dx, gradient_of(wte), gradient_of(wpe));
}

Gpt::Gpt(const GptShape& shape, std::size_t sequences)
    : workspace_(std::make_unique<Workspace>(shape, sequences)) {}

Gpt::~Gpt() = default;

double Gpt::accumulate(std::span<const float> weights, std::span<const Token> tokens,
                       std::span<float> gradient) {
  Workspace& work = *workspace_;
  work.weights = weights;
  work.gradient = gradient;
  const std::size_t context = work.shape.context;
  for (std::size_t b = 0; b < work.embedding.batch; ++b) {
    const auto next = tokens.begin() + static_cast<std::ptrdiff_t>(b * (context + 1) + 1);
    std::copy(next, next + static_cast<std::ptrdiff_t>(context),
              work.targets.begin() + static_cast<std::ptrdiff_t>(b * context));
  }
  const double loss = work.forward(tokens);
  work.backward(tokens);
  return loss;
}

}  // namespace muster

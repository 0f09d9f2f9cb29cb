#include "runtime/model/gpt.h"

#include <algorithm>
#include <type_traits>

#include "runtime/layer/attention.h"
#include "runtime/layer/gemm.h"
#include "runtime/layer/layers.h"
#include "runtime/layer/parallel.h"
#include "runtime/memory/vector_loops.h"

namespace muster {

namespace {

using namespace gpt_parameter;
using Buffer = std::vector<float>;

constexpr std::size_t grain = 16384;

void add_rows(std::span<const float> a, std::span<const float> b, std::span<float> sum) {
  for_ranges(a.size(), grain, [&](std::size_t lo, std::size_t hi) {
    add(a.data() + lo, b.data() + lo, hi - lo, sum.data() + lo);
  });
}

MUSTER_VECTOR_CLONES
void round_loop(const float* from, std::size_t count, Bf16* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = to_bf16(from[i]);
}

// The values as operands of matrix products: themselves, or rounded into `rounded`.
std::span<const float> operands_of(std::span<const float> values, std::vector<float>&) {
  return values;
}
std::span<const Bf16> operands_of(std::span<const float> values, std::vector<Bf16>& rounded) {
  rounded.resize(values.size());
  for_ranges(values.size(), grain, [&](std::size_t lo, std::size_t hi) {
    round_loop(values.data() + lo, hi - lo, rounded.data() + lo);
  });
  return rounded;
}

// Memory for operands made from `values`: the same if they are floats.
std::span<float> in_place(std::span<float> values, std::vector<float>&) {
  return values;
}
std::span<Bf16> in_place(std::span<float> values, std::vector<Bf16>& beside) {
  beside.resize(values.size());
  return beside;
}

// A block that was taken from the store.
template <class Operand>
struct TakenBlock {
  std::uint64_t first = 0;  // in the flat space
  std::span<const float> weights;
  std::span<const Operand> operands;  // the weights, as matrix products read them
  std::span<float> gradient;
};

// What backward needs of one layer's forward. M rows = sequences x context.
template <class Operand>
struct LayerActivations {
  LayerActivations(std::size_t rows, std::size_t width, std::size_t attention_rows)
      : x_mlp(rows * width),
        mean_1(rows),
        rstd_1(rows),
        mean_2(rows),
        rstd_2(rows),
        qkv(3 * rows * width),
        log_sums(attention_rows),
        hidden(4 * rows * width),
        normed_1(rows * width),
        attended(rows * width),
        normed_2(rows * width),
        activated(4 * rows * width) {}

  Buffer x_mlp;                                                  // [M, C]
  Buffer mean_1, rstd_1, mean_2, rstd_2;                         // [M]
  Buffer qkv, log_sums, hidden;                                  // [M, 3C], [heads M], [M, 4C]
  std::vector<Operand> normed_1, attended, normed_2, activated;  // [M, C], ..., [M, 4C]
};

// For one precision.
template <class Operand>
class GptOf final : public Gpt {
  using Operands = std::vector<Operand>;
  struct Rounded {
    Operands memory;
    std::span<const Operand> values;
    bool is_current = false;
  };

 public:
  GptOf(const GptShape& shape, std::size_t sequences, const GptSettings& settings)
      : shape_(shape),
        space_(gpt_flat_space(shape)),
        blocks_(gpt_blocks(shape, space_)),
        recompute_(settings.recompute),
        round_again_(settings.round_again),
        rows_(sequences * shape.context),
        attention_{sequences, shape.context, shape.heads, shape.width},
        norm_{rows_, shape.width},
        embedding_{sequences, shape.context, shape.width, shape.context + 1},
        inputs_(shape.layers + 1, Buffer(rows_ * shape.width)),
        layers_(recompute_ ? 1 : shape.layers, {rows_, shape.width, attention_.rows()}),
        mean_f_(rows_),
        rstd_f_(rows_),
        logits_(rows_ * shape.vocabulary),
        dqkv_(3 * rows_ * shape.width),
        dhidden_(4 * rows_ * shape.width),
        scratch_(attention_scratch(attention_)),
        normed_f_(rows_ * shape.width),
        rounded_(blocks_.size()),
        targets_(rows_) {
    for (Buffer* buffer : {&dx_, &dnarrow_, &branch_}) buffer->resize(rows_ * shape.width);
  }

  void weights_changed() override {
    for (Rounded& block : rounded_) block.is_current = false;
  }

  double accumulate(std::span<const Token> tokens, BlockStore& store, bool fresh) override {
    store_ = &store;
    fresh_ = fresh;
    for (std::size_t row = 0; row < rows_; ++row) {
      targets_[row] = tokens[row / shape_.context * embedding_.stride + row % shape_.context + 1];
    }
    const double loss = forward(tokens);
    backward(tokens);
    return loss;
  }

 private:
  // Which block a parameter, or a layer, lies in.
  std::size_t final_block() const { return shape_.layers + 1; }
  TakenBlock<Operand>& taken(std::size_t block) {
    return block == 0 ? embeddings_ : block == final_block() ? final_ : layer_;
  }
  TakenBlock<Operand>& taken_with(std::size_t index) {
    const bool is_embedding = index <= wpe;
    return is_embedding ? embeddings_ : index >= ln_f_weight(shape_.layers) ? final_ : layer_;
  }

  void take_weights(std::size_t block) {
    TakenBlock<Operand>& at = taken(block);
    at.first = blocks_[block].lo;
    at.weights = store_->weights(block);
    at.operands = operands_of_block(block, at.weights);
  }
  void take_gradient(std::size_t block) {
    taken(block).gradient = store_->gradient(block);
    if (fresh_) clear_sums(block);
  }

  // Rounded once after every change of the weights; where layers are rounded again, all of them
  // share one place.
  std::span<const Operand> operands_of_block(std::size_t block, std::span<const float> weights) {
    const bool is_layer = block != 0 && block != final_block();
    Rounded& rounded = rounded_[round_again_ && is_layer ? 1 : block];
    if (std::is_same_v<Operand, float> || (round_again_ && is_layer) || !rounded.is_current) {
      rounded.values = operands_of(weights, rounded.memory);
      rounded.is_current = true;
    }
    return rounded.values;
  }

  template <class Number>
  std::span<Number> parameter(std::span<Number> values, std::size_t index) {
    const FlatParameter& param = space_.params[index];
    return values.subspan(param.offset - taken_with(index).first, param.size());
  }
  std::span<const float> weight(std::size_t index) {
    return parameter(taken_with(index).weights, index);
  }
  std::span<const Operand> matrix(std::size_t index) {
    return parameter(taken_with(index).operands, index);
  }
  std::span<float> gradient_of(std::size_t index) {
    return parameter(taken_with(index).gradient, index);
  }
  LinearShape linear(std::size_t in, std::size_t out) const { return {rows_, in, out, fresh_}; }
  LayerActivations<Operand>& layer(std::size_t index) { return layers_[recompute_ ? 0 : index]; }

  // Of a block's gradient, what is only ever added to, and the padding: all but the results of
  // matrix products.
  void clear_sums(std::size_t block) {
    const std::span<float> gradient = taken(block).gradient;
    std::uint64_t clean = 0;  // up to here
    const auto clear_until = [&](std::uint64_t end) {
      std::ranges::fill(gradient.subspan(clean, end - clean), 0.0f);
    };
    for (std::size_t index = 0; index < space_.params.size(); ++index) {
      const FlatParameter& param = space_.params[index];
      const bool from_product = index == head(shape_) || (index > wpe && param.shape.size() == 2);
      if (!from_product || param.offset < blocks_[block].lo || param.offset >= blocks_[block].hi) {
        continue;
      }
      clear_until(param.offset - blocks_[block].lo);
      clean = param.offset - blocks_[block].lo + param.size();
    }
    clear_until(gradient.size());
  }

  double forward(std::span<const Token> tokens);
  void backward(std::span<const Token> tokens);
  void layer_forward(std::size_t index);
  void layer_backward(std::size_t index);
  void head_backward();

  GptShape shape_;
  FlatSpace space_;
  std::vector<ElementRange> blocks_;
  bool recompute_, round_again_;
  std::size_t rows_;
  AttentionShape attention_;
  LayerNormShape norm_;
  EmbeddingShape embedding_;
  std::vector<Buffer> inputs_;  // [M, C] of each layer, and the output of the last
  std::vector<LayerActivations<Operand>> layers_;
  Buffer mean_f_, rstd_f_, logits_;       // [M], [M], [M, vocabulary]
  Buffer dx_, dnarrow_, dqkv_, dhidden_;  // [M, C], [M, C], [M, 3C], [M, 4C]
  Buffer branch_, scratch_;               // [M, C]
  Operands normed_f_;                     // [M, C]
  Operands dx_operands_, dqkv_operands_, dhidden_operands_, dlogits_operands_;
  std::vector<Rounded> rounded_;                    // by block
  std::vector<Token> targets_;                      // [M]
  TakenBlock<Operand> embeddings_, layer_, final_;  // one layer at a time
  BlockStore* store_ = nullptr;
  bool fresh_ = false;
};

template <class Operand>
void GptOf<Operand>::layer_forward(std::size_t index) {
  LayerActivations<Operand>& at = layer(index);
  const auto w = [&](InLayer which) { return weight(of_layer(index, which)); };
  const auto m = [&](InLayer which) { return matrix(of_layer(index, which)); };
  const auto project = [&](std::size_t in, std::size_t out, const Operands& x, InLayer which,
                           Buffer& y) {
    linear_forward<Operand>(linear(in, out), x, m(which), weight(of_layer(index, which) + 1), y);
  };
  const std::size_t c = shape_.width;
  layer_norm_forward<Operand>(norm_, inputs_[index], w(ln_1_weight), w(ln_1_bias), at.normed_1,
                              at.mean_1, at.rstd_1);
  project(c, 3 * c, at.normed_1, attn_weight, at.qkv);
  attention_forward<Operand>(attention_, at.qkv, at.attended, at.log_sums, scratch_);
  project(c, c, at.attended, attn_proj_weight, branch_);
  add_rows(inputs_[index], branch_, at.x_mlp);
  layer_norm_forward<Operand>(norm_, at.x_mlp, w(ln_2_weight), w(ln_2_bias), at.normed_2, at.mean_2,
                              at.rstd_2);
  project(c, 4 * c, at.normed_2, fc_weight, at.hidden);
  gelu_forward<Operand>(at.hidden, at.activated);
  project(4 * c, c, at.activated, fc_proj_weight, branch_);
  add_rows(at.x_mlp, branch_, inputs_[index + 1]);
}

template <class Operand>
double GptOf<Operand>::forward(std::span<const Token> tokens) {
  take_weights(0);
  embedding_forward(embedding_, tokens, weight(wte), weight(wpe), inputs_[0]);
  if (!shape_.tied) store_->weights_done(0);
  for (std::size_t index = 0; index < shape_.layers; ++index) {
    take_weights(index + 1);
    layer_forward(index);
    store_->weights_done(index + 1);
  }
  take_weights(final_block());
  layer_norm_forward<Operand>(norm_, inputs_.back(), weight(ln_f_weight(shape_.layers)),
                              weight(ln_f_bias(shape_.layers)), normed_f_, mean_f_, rstd_f_);
  gemm({.m = rows_, .n = shape_.vocabulary, .k = shape_.width, .transpose_b = true},
       normed_f_.data(), matrix(head(shape_)).data(), logits_.data());
  return cross_entropy<Operand>(targets_, shape_.vocabulary, logits_,
                                in_place(logits_, dlogits_operands_));
}

// dx_ holds the gradient of the residual stream, from the end of the layer to its beginning.
template <class Operand>
void GptOf<Operand>::layer_backward(std::size_t index) {
  if (recompute_) layer_forward(index);
  LayerActivations<Operand>& at = layer(index);
  const auto w = [&](InLayer which) { return weight(of_layer(index, which)); };
  const auto d = [&](InLayer which) { return gradient_of(of_layer(index, which)); };
  const auto project = [&](std::size_t in, std::size_t out, const Operands& x, InLayer which,
                           std::span<const Operand> dy, Buffer& dx) {
    const std::size_t bias = of_layer(index, which) + 1;
    linear_backward<Operand>(linear(in, out), x, matrix(of_layer(index, which)), dy, dx, d(which),
                             gradient_of(bias));
  };
  const std::size_t c = shape_.width;
  project(4 * c, c, at.activated, fc_proj_weight, operands_of(dx_, dx_operands_), dhidden_);
  const std::span<Operand> dhidden = in_place(dhidden_, dhidden_operands_);
  gelu_backward<Operand>(at.hidden, dhidden_, dhidden);
  project(c, 4 * c, at.normed_2, fc_weight, dhidden, dnarrow_);
  layer_norm_backward(norm_, at.x_mlp, w(ln_2_weight), at.mean_2, at.rstd_2, dnarrow_, dx_,
                      d(ln_2_weight), d(ln_2_bias));
  project(c, c, at.attended, attn_proj_weight, operands_of(dx_, dx_operands_), dnarrow_);
  const std::span<Operand> dqkv = in_place(dqkv_, dqkv_operands_);
  attention_backward<Operand>(attention_, at.qkv, at.log_sums, dnarrow_, dqkv, scratch_);
  project(c, 3 * c, at.normed_1, attn_weight, dqkv, dnarrow_);
  layer_norm_backward(norm_, inputs_[index], w(ln_1_weight), at.mean_1, at.rstd_1, dnarrow_, dx_,
                      d(ln_1_weight), d(ln_1_bias));
}

// The head, whose matrix is the token embedding or one of its own, and the last norm; dx_ becomes
// the gradient of what the layers made.
template <class Operand>
void GptOf<Operand>::head_backward() {
  const std::size_t c = shape_.width;
  const std::size_t v = shape_.vocabulary;
  const std::span<const Operand> dlogits = in_place(logits_, dlogits_operands_);
  take_gradient(final_block());
  if (shape_.tied) take_gradient(0);
  gemm({.m = rows_, .n = c, .k = v}, dlogits.data(), matrix(head(shape_)).data(), dnarrow_.data());
  gemm({.m = v, .n = c, .k = rows_, .transpose_a = true, .add = !fresh_}, dlogits.data(),
       normed_f_.data(), gradient_of(head(shape_)).data());
  std::fill(dx_.begin(), dx_.end(), 0.0f);
  layer_norm_backward(norm_, inputs_.back(), weight(ln_f_weight(shape_.layers)), mean_f_, rstd_f_,
                      dnarrow_, dx_, gradient_of(ln_f_weight(shape_.layers)),
                      gradient_of(ln_f_bias(shape_.layers)));
  store_->weights_done(final_block());
  store_->gradient_done(final_block());
  if (shape_.tied) store_->weights_done(0);
}

template <class Operand>
void GptOf<Operand>::backward(std::span<const Token> tokens) {
  head_backward();
  for (std::size_t index = shape_.layers; index-- > 0;) {
    take_weights(index + 1);
    take_gradient(index + 1);
    layer_backward(index);
    store_->weights_done(index + 1);
    store_->gradient_done(index + 1);
  }
  if (!shape_.tied) take_gradient(0);
  embedding_backward(embedding_, tokens, dx_, gradient_of(wte), gradient_of(wpe));
  store_->gradient_done(0);
}

}  // namespace

std::unique_ptr<Gpt> make_gpt(const GptShape& shape, std::size_t sequences,
                              const GptSettings& settings) {
  if (settings.precision == Precision::fp32) {
    return std::make_unique<GptOf<float>>(shape, sequences, settings);
  }
  return std::make_unique<GptOf<Bf16>>(shape, sequences, settings);
}

}  // namespace muster

#include "runtime/export/gpt_graph.h"

#include <cmath>
#include <limits>

#include "runtime/export/onnx_graph.h"
#include "runtime/layer/layer_norm.h"

namespace muster {
namespace {

class GptGraph {
 public:
  GptGraph(const ExportedModel& model, OnnxGraph& graph) : model_(model), graph_(graph) {}

  void build() {
    const OnnxValue tokens = graph_.input_int64("tokens", {"batch", "sequence"});
    const OnnxValue positions = positions_of(tokens);
    const OnnxValue mask = causal_mask(positions);
    OnnxValue x =
        graph_.add(graph_.gather("wte.weight", tokens), graph_.gather("wpe.weight", positions));
    for (std::uint64_t layer = 0; layer < model_.layers; ++layer) {
      const std::string at = "h." + std::to_string(layer) + ".";
      x = graph_.add(x, attention(norm(x, at + "ln_1"), at + "attn.", mask));
      x = graph_.add(x, perceptron(norm(x, at + "ln_2"), at + "mlp."));
    }
    const char* head = model_.tied ? "wte.weight" : "lm_head.weight";
    const OnnxValue logits = graph_.mat_mul(norm(x, "ln_f"), graph_.transpose(head, {1, 0}));
    graph_.output_float(logits, "logits", {"batch", "sequence", std::to_string(model_.vocabulary)});
  }

 private:
  // 0, 1, … up to the length of the sequences.
  OnnxValue positions_of(const OnnxValue& tokens) {
    const OnnxValue length = graph_.squeeze(graph_.shape(tokens, 1, 2));
    return graph_.range(graph_.scalar(0), length, graph_.scalar(1));
  }

  // [sequence, sequence]: whether the column may be seen from the row.
  OnnxValue causal_mask(const OnnxValue& positions) {
    return graph_.less_or_equal(graph_.unsqueeze(positions, 0), graph_.unsqueeze(positions, 1));
  }

  OnnxValue norm(const OnnxValue& x, const std::string& name) {
    return graph_.layer_normalization(x, name + ".weight", name + ".bias",
                                      static_cast<float>(layer_norm_epsilon));
  }

  OnnxValue linear(const OnnxValue& x, const std::string& name) {
    return graph_.add(graph_.mat_mul(x, name + ".weight"), name + ".bias");
  }

  // [batch, sequence, width] to one matrix for each head, its dimensions in this order.
  OnnxValue heads_of(const OnnxValue& x, const std::vector<std::int64_t>& order) {
    const auto heads = static_cast<std::int64_t>(model_.heads);
    const auto width = static_cast<std::int64_t>(model_.width / model_.heads);
    return graph_.transpose(graph_.reshape(x, {0, 0, heads, width}), order);
  }

  OnnxValue attention(const OnnxValue& x, const std::string& at, const OnnxValue& mask) {
    const auto qkv = graph_.split(linear(x, at + "c_attn"), 3);
    const OnnxValue q = heads_of(qkv[0], {0, 2, 1, 3});
    const OnnxValue k = heads_of(qkv[1], {0, 2, 3, 1});
    const OnnxValue v = heads_of(qkv[2], {0, 2, 1, 3});
    const double head_width = static_cast<double>(model_.width / model_.heads);
    const OnnxValue scale = graph_.constant(static_cast<float>(1 / std::sqrt(head_width)));
    const OnnxValue scores = graph_.mul(graph_.mat_mul(q, k), scale);
    // The lowest number, not infinity, of which some runtimes make NaN.
    const OnnxValue hidden = graph_.constant(std::numeric_limits<float>::lowest());
    const OnnxValue weights = graph_.softmax(graph_.where(mask, scores, hidden));
    const OnnxValue seen = graph_.transpose(graph_.mat_mul(weights, v), {0, 2, 1, 3});
    const auto width = static_cast<std::int64_t>(model_.width);
    return linear(graph_.reshape(seen, {0, 0, width}), at + "c_proj");
  }

  // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as in runtime/layer/gelu.h.
  OnnxValue gelu(const OnnxValue& x) {
    const OnnxValue cube = graph_.mul(graph_.mul(x, x), x);
    const OnnxValue inner = graph_.add(x, graph_.mul(cube, graph_.constant(0.044715f)));
    const auto factor = static_cast<float>(std::sqrt(2 / std::acos(-1.0)));
    const OnnxValue bent = graph_.tanh(graph_.mul(inner, graph_.constant(factor)));
    const OnnxValue half = graph_.mul(x, graph_.constant(0.5f));
    return graph_.mul(half, graph_.add(bent, graph_.constant(1.0f)));
  }

  OnnxValue perceptron(const OnnxValue& x, const std::string& at) {
    return linear(gelu(linear(x, at + "c_fc")), at + "c_proj");
  }

  const ExportedModel& model_;
  OnnxGraph& graph_;
};

}  // namespace

void build_gpt_graph(const ExportedModel& model, OnnxGraph& graph) {
  GptGraph(model, graph).build();
}

}  // namespace muster

#include "runtime/export/onnx_file.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/export/export.h"
#include "runtime/export/onnx.pb.h"
#include "runtime/layer/layers.h"

#ifndef MUSTER_VERSION
#define MUSTER_VERSION "unknown"
#endif

namespace muster {
namespace {

using onnx::AttributeProto;
using onnx::TensorProto;

AttributeProto& new_attribute(onnx::NodeProto& node, const char* name,
                              AttributeProto::AttributeType type) {
  AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

void set_int(onnx::NodeProto& node, const char* name, std::int64_t value) {
  new_attribute(node, name, AttributeProto::INT).set_i(value);
}

void describe(onnx::ValueInfoProto& value, const std::string& name, std::int32_t type,
              const std::vector<std::string>& dimensions) {
  value.set_name(name);
  auto& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  for (const std::string& dimension : dimensions) {
    auto& entry = *tensor.mutable_shape()->add_dim();
    const bool is_number = dimension.find_first_not_of("0123456789") == std::string::npos;
    if (is_number) entry.set_dim_value(std::stoll(dimension));
    if (!is_number) entry.set_dim_param(dimension);
  }
}

template <class Number>
std::string bytes_of(const std::vector<Number>& values) {
  std::string bytes(values.size() * sizeof(Number), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// The GPT of runtime/model/gpt.h as an ONNX graph for inference:
//
//   tokens [batch, sequence] int64  ->  logits [batch, sequence, vocabulary] float
//
// with any batch and up to `context` tokens in a sequence. Weights are values of the graph under
// the names of the checkpoint.

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

  // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as in runtime/layer/layers.h.
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

constexpr const char* model_name = "model.onnx";
constexpr const char* data_name = "model.onnx.data";
// Below 2 GiB by what the graph itself may take: 1000 layers are less than 10 MB.
constexpr std::uint64_t embedded_limit_bytes = (std::uint64_t{1} << 31) - (64 << 20);
constexpr std::uint64_t external_alignment_bytes = 4096;

// Wire format of protobuf: a field's number and kind, then for kind 2 its length, as varints.
constexpr std::uint32_t length_delimited = 2;

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

// What stands before `length` bytes of the field.
std::string field_head(int number, std::uint64_t length) {
  return varint(static_cast<std::uint64_t>(number) << 3 | length_delimited) + varint(length);
}

std::uint64_t aligned(std::uint64_t offset) {
  return (offset + external_alignment_bytes - 1) / external_alignment_bytes *
         external_alignment_bytes;
}

onnx::TensorProto description_of(const FlatParameter& tensor) {
  onnx::TensorProto description;
  description.set_name(tensor.name);
  description.set_data_type(onnx::TensorProto::FLOAT);
  for (const std::uint64_t extent : tensor.shape) {
    description.add_dims(static_cast<std::int64_t>(extent));
  }
  return description;
}

onnx::ModelProto model_around_graph() {
  onnx::ModelProto model;
  model.set_ir_version(onnx_ir_version);
  model.set_producer_name("muster");
  model.set_producer_version(MUSTER_VERSION);
  model.add_opset_import()->set_version(onnx_opset);
  return model;
}

// All of TensorProto that stands before the values.
std::string embedded_head(const FlatParameter& tensor) {
  return description_of(tensor).SerializeAsString() +
         field_head(onnx::TensorProto::kRawDataFieldNumber, tensor_bytes(tensor));
}

Checked<NoValue> write_embedded(const ExportedModel& model, CheckpointReader& reader,
                                const std::string& path, const onnx::GraphProto& graph) {
  const std::string skeleton = graph.SerializeAsString();
  std::uint64_t graph_bytes = skeleton.size();
  std::vector<std::string> heads;
  for (const FlatParameter& tensor : model.tensors) {
    const std::string inner = embedded_head(tensor);
    heads.push_back(
        field_head(onnx::GraphProto::kInitializerFieldNumber, inner.size() + tensor_bytes(tensor)) +
        inner);
    graph_bytes += heads.back().size() + tensor_bytes(tensor);
  }
  const std::string begin = model_around_graph().SerializeAsString() +
                            field_head(onnx::ModelProto::kGraphFieldNumber, graph_bytes) + skeleton;
  auto file = ExportFile::create(path, begin.size() - skeleton.size() + graph_bytes);
  if (!file) return file.fault();
  if (auto put = file.value().append(begin); !put) return put;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (auto put = file.value().append(heads[i]); !put) return put;
    if (auto put = file.value().append_tensor(reader, model.tensors[i]); !put) return put;
  }
  return file.value().sync_and_close();
}

void set_entry(onnx::TensorProto& tensor, const char* key, const std::string& value) {
  auto& entry = *tensor.add_external_data();
  entry.set_key(key);
  entry.set_value(value);
}

Checked<NoValue> write_external(const ExportedModel& model, CheckpointReader& reader,
                                const std::string& directory, onnx::GraphProto graph) {
  std::uint64_t total = 0;
  for (const FlatParameter& tensor : model.tensors) total = aligned(total) + tensor_bytes(tensor);
  auto file = ExportFile::create(directory + "/" + data_name, total);
  if (!file) return file.fault();
  for (const FlatParameter& tensor : model.tensors) {
    const std::uint64_t offset = aligned(file.value().size());
    const std::string gap(offset - file.value().size(), '\0');
    if (auto put = file.value().append(gap); !put) return put;
    if (auto put = file.value().append_tensor(reader, tensor); !put) return put;
    onnx::TensorProto& description = *graph.add_initializer();
    description = description_of(tensor);
    description.set_data_location(onnx::TensorProto::EXTERNAL);
    set_entry(description, "location", data_name);
    set_entry(description, "offset", std::to_string(offset));
    set_entry(description, "length", std::to_string(tensor_bytes(tensor)));
  }
  if (auto closed = file.value().sync_and_close(); !closed) return closed;
  onnx::ModelProto whole = model_around_graph();
  *whole.mutable_graph() = std::move(graph);
  return replace_durably(directory, model_name, whole.SerializeAsString());
}

}  // namespace

onnx::NodeProto& OnnxGraph::node(const char* op, const std::vector<OnnxValue>& inputs,
                                 std::size_t outputs) {
  const std::string name = op + std::string("_") + std::to_string(graph_.node_size());
  onnx::NodeProto& added = *graph_.add_node();
  added.set_op_type(op);
  added.set_name(name);
  for (const OnnxValue& input : inputs) added.add_input(input);
  for (std::size_t i = 0; i < outputs; ++i) {
    added.add_output(outputs == 1 ? name : name + "_" + std::to_string(i));
  }
  return added;
}

OnnxValue OnnxGraph::result(const char* op, const std::vector<OnnxValue>& inputs) {
  return node(op, inputs).output(0);
}

OnnxValue OnnxGraph::initializer(const std::string& key, std::int32_t type,
                                 const std::vector<std::int64_t>& dimensions,
                                 const std::string& bytes) {
  const auto [place, fresh] =
      constants_.try_emplace(key + bytes, "constant_" + std::to_string(constants_.size()));
  if (!fresh) return place->second;
  TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(place->second);
  tensor.set_data_type(type);
  for (const std::int64_t dimension : dimensions) tensor.add_dims(dimension);
  tensor.set_raw_data(bytes);
  return place->second;
}

OnnxValue OnnxGraph::input_int64(const std::string& name,
                                 const std::vector<std::string>& dimensions) {
  describe(*graph_.add_input(), name, TensorProto::INT64, dimensions);
  return name;
}

void OnnxGraph::output_float(const OnnxValue& value, const std::string& name,
                             const std::vector<std::string>& dimensions) {
  onnx::NodeProto& added = node("Identity", {value});
  added.set_output(0, name);
  describe(*graph_.add_output(), name, TensorProto::FLOAT, dimensions);
}

OnnxValue OnnxGraph::constant(float value) {
  return initializer("float", TensorProto::FLOAT, {}, bytes_of(std::vector{value}));
}

OnnxValue OnnxGraph::constant(const std::vector<std::int64_t>& values) {
  return initializer("vector", TensorProto::INT64, {static_cast<std::int64_t>(values.size())},
                     bytes_of(values));
}

OnnxValue OnnxGraph::scalar(std::int64_t value) {
  return initializer("scalar", TensorProto::INT64, {}, bytes_of(std::vector{value}));
}

OnnxValue OnnxGraph::softmax(const OnnxValue& x) {
  onnx::NodeProto& added = node("Softmax", {x});
  set_int(added, "axis", -1);
  return added.output(0);
}

OnnxValue OnnxGraph::layer_normalization(const OnnxValue& x, const OnnxValue& weight,
                                         const OnnxValue& bias, float epsilon) {
  onnx::NodeProto& added = node("LayerNormalization", {x, weight, bias});
  set_int(added, "axis", -1);
  new_attribute(added, "epsilon", AttributeProto::FLOAT).set_f(epsilon);
  return added.output(0);
}

OnnxValue OnnxGraph::gather(const OnnxValue& table, const OnnxValue& indices) {
  onnx::NodeProto& added = node("Gather", {table, indices});
  set_int(added, "axis", 0);
  return added.output(0);
}

OnnxValue OnnxGraph::transpose(const OnnxValue& x, const std::vector<std::int64_t>& order) {
  onnx::NodeProto& added = node("Transpose", {x});
  AttributeProto& permutation = new_attribute(added, "perm", AttributeProto::INTS);
  for (const std::int64_t dimension : order) permutation.add_ints(dimension);
  return added.output(0);
}

std::vector<OnnxValue> OnnxGraph::split(const OnnxValue& x, std::size_t parts) {
  onnx::NodeProto& added = node("Split", {x}, parts);
  set_int(added, "axis", -1);
  return {added.output().begin(), added.output().end()};
}

OnnxValue OnnxGraph::shape(const OnnxValue& x, std::int64_t first, std::int64_t last) {
  onnx::NodeProto& added = node("Shape", {x});
  set_int(added, "start", first);
  set_int(added, "end", last);
  return added.output(0);
}

Checked<NoValue> write_onnx_file(const ExportedModel& model, CheckpointReader& reader,
                                 const std::string& directory, bool external_data) {
  onnx::GraphProto graph;
  graph.set_name("gpt");
  OnnxGraph builder(graph);
  GptGraph(model, builder).build();
  if (external_data || model.bytes() > embedded_limit_bytes) {
    return write_external(model, reader, directory, std::move(graph));
  }
  return write_embedded(model, reader, directory + "/" + model_name, graph);
}

}  // namespace muster

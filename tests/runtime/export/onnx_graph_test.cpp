// The messages of an exported graph, field by field. What the graph computes is checked by
// exported_model.py.
#include "runtime/export/onnx_file.h"

#include <cstring>

#include "runtime/export/export.h"
#include "runtime/export/onnx.pb.h"
#include "tests/catch.h"
#include "tests/runtime/a_gpt_checkpoint.h"

using namespace muster;
using namespace muster::test;

namespace {

using onnx::AttributeProto;
using onnx::TensorProto;

std::string list_of(const auto& values, const char* separator) {
  std::string text;
  for (const auto& value : values) {
    if (!text.empty()) text += separator;
    if constexpr (std::is_convertible_v<decltype(value), std::string>)
      text += value;
    else
      text += std::to_string(value);
  }
  return text;
}

std::string value_of(const AttributeProto& attribute) {
  switch (attribute.type()) {
    case AttributeProto::INT:
      return std::to_string(attribute.i());
    case AttributeProto::FLOAT:
      return std::to_string(attribute.f());
    case AttributeProto::INTS:
      return "[" + list_of(attribute.ints(), " ") + "]";
    default:
      return "?";
  }
}

// "Split_3_0 Split_3_1 = Split(x) axis=-1"
std::string text_of(const onnx::NodeProto& node) {
  std::string text = list_of(node.output(), " ") + " = " + node.op_type() + "(" +
                     list_of(node.input(), ", ") + ")";
  for (const AttributeProto& attribute : node.attribute()) {
    text += " " + attribute.name() + "=" + value_of(attribute);
  }
  return text;
}

// "tokens int64 [batch 8]"
std::string text_of(const onnx::ValueInfoProto& value) {
  const auto& tensor = value.type().tensor_type();
  std::vector<std::string> dimensions;
  for (const auto& one : tensor.shape().dim()) {
    dimensions.push_back(one.has_dim_value() ? std::to_string(one.dim_value()) : one.dim_param());
  }
  const char* type = tensor.elem_type() == TensorProto::INT64   ? "int64"
                     : tensor.elem_type() == TensorProto::FLOAT ? "float"
                                                                : "?";
  return value.name() + " " + type + " [" + list_of(dimensions, " ") + "]";
}

struct AGraph {
  onnx::GraphProto proto;
  OnnxGraph graph{proto};

  // The latest node, of which the operator gave the result.
  std::string last(const OnnxValue& result) const {
    const onnx::NodeProto& node = proto.node(proto.node_size() - 1);
    CHECK(node.output(0) == result);
    CHECK(node.name().starts_with(node.op_type() + "_"));
    return text_of(node);
  }
};

onnx::ModelProto model_in(const std::string& file) {
  onnx::ModelProto model;
  REQUIRE(model.ParseFromString(content_of(file)));
  return model;
}

}  // namespace

TEST_CASE("an operator is a node with its inputs and attributes, and its result has its name") {
  AGraph a;
  OnnxGraph& graph = a.graph;
  CHECK(a.last(graph.add("x", "y")) == "Add_0 = Add(x, y)");
  CHECK(a.last(graph.mul("x", "y")) == "Mul_1 = Mul(x, y)");
  CHECK(a.last(graph.mat_mul("x", "y")) == "MatMul_2 = MatMul(x, y)");
  CHECK(a.last(graph.tanh("x")) == "Tanh_3 = Tanh(x)");
  CHECK(a.last(graph.softmax("x")) == "Softmax_4 = Softmax(x) axis=-1");
  CHECK(a.last(graph.layer_normalization("x", "w", "b", 0.25f)) ==
        "LayerNormalization_5 = LayerNormalization(x, w, b) axis=-1 epsilon=0.250000");
  CHECK(a.last(graph.gather("table", "i")) == "Gather_6 = Gather(table, i) axis=0");
  CHECK(a.last(graph.transpose("x", {0, 2, 1})) == "Transpose_7 = Transpose(x) perm=[0 2 1]");
  CHECK(a.last(graph.reshape("x", {0, -1})) == "Reshape_8 = Reshape(x, constant_0)");
  CHECK(a.last(graph.shape("x", 1, 3)) == "Shape_9 = Shape(x) start=1 end=3");
  CHECK(a.last(graph.squeeze("x")) == "Squeeze_10 = Squeeze(x)");
  CHECK(a.last(graph.unsqueeze("x", 1)) == "Unsqueeze_11 = Unsqueeze(x, constant_1)");
  CHECK(a.last(graph.range("a", "b", "c")) == "Range_12 = Range(a, b, c)");
  CHECK(a.last(graph.less_or_equal("a", "b")) == "LessOrEqual_13 = LessOrEqual(a, b)");
  CHECK(a.last(graph.where("a", "b", "c")) == "Where_14 = Where(a, b, c)");
  const auto parts = graph.split("x", 2);
  CHECK(parts == std::vector<OnnxValue>{"Split_15_0", "Split_15_1"});
  CHECK(a.last(parts[0]) == "Split_15_0 Split_15_1 = Split(x) axis=-1");
}

TEST_CASE("inputs and outputs have types, and dimensions that are numbers or names") {
  AGraph a;
  CHECK(a.graph.input_int64("tokens", {"batch", "8"}) == "tokens");
  a.graph.output_float("x", "logits", {"batch", "8", "50"});
  REQUIRE(a.proto.input_size() == 1);
  REQUIRE(a.proto.output_size() == 1);
  CHECK(text_of(a.proto.input(0)) == "tokens int64 [batch 8]");
  CHECK(text_of(a.proto.output(0)) == "logits float [batch 8 50]");
  CHECK(text_of(a.proto.node(0)) == "logits = Identity(x)");
}

TEST_CASE("a constant is stored once, and another type or form of it is another constant") {
  AGraph a;
  const OnnxValue number = a.graph.constant(1.5f);
  const OnnxValue vector = a.graph.constant(std::vector<std::int64_t>{3, -4});
  const OnnxValue one = a.graph.constant(std::vector<std::int64_t>{7});
  const OnnxValue scalar = a.graph.scalar(7);
  CHECK(a.graph.constant(1.5f) == number);
  CHECK(a.graph.constant(std::vector<std::int64_t>{3, -4}) == vector);
  CHECK(a.graph.scalar(7) == scalar);
  REQUIRE(a.proto.initializer_size() == 4);
  const auto check = [&](int index, const OnnxValue& name, int type, const std::string& dimensions,
                         const std::string& bytes) {
    const TensorProto& tensor = a.proto.initializer(index);
    CHECK(tensor.name() == name);
    CHECK(tensor.data_type() == type);
    CHECK(list_of(tensor.dims(), " ") == dimensions);
    CHECK(tensor.raw_data() == bytes);
  };
  const std::string seven("\x07\0\0\0\0\0\0\0", 8);
  check(0, number, TensorProto::FLOAT, "", std::string("\0\0\xc0\x3f", 4));
  check(1, vector, TensorProto::INT64, "2",
        std::string("\x03\0\0\0\0\0\0\0\xfc\xff\xff\xff\xff\xff\xff\xff", 16));
  check(2, one, TensorProto::INT64, "1", seven);
  check(3, scalar, TensorProto::INT64, "", seven);
}

TEST_CASE("a model file has every weight under its name, in it or beside it, at a whole page") {
  Folder folder;
  const std::string path = commit_gpt(folder.path(), shape_of_all);
  const FlatSpace space = gpt_flat_space(shape_of_all);
  const bool is_external = GENERATE(false, true);
  REQUIRE(export_checkpoint(
      path,
      {.format = ExportFormat::onnx, .directory = folder / "out", .external_data = is_external}));
  const onnx::ModelProto model = model_in(folder / "out/model.onnx");
  CHECK(model.ir_version() == onnx_ir_version);
  CHECK(model.producer_name() == "muster");
  REQUIRE(model.opset_import_size() == 1);
  CHECK(model.opset_import(0).version() == onnx_opset);
  CHECK(text_of(model.graph().input(0)) == "tokens int64 [batch sequence]");
  CHECK(text_of(model.graph().output(0)) == "logits float [batch sequence 50]");
  const std::string beside = is_external ? content_of(folder / "out/model.onnx.data") : "";
  std::size_t found = 0;
  for (const TensorProto& tensor : model.graph().initializer()) {
    const auto param = std::ranges::find(space.params, tensor.name(), &FlatParameter::name);
    if (param == space.params.end()) continue;  // a constant
    ++found;
    CAPTURE(tensor.name());
    CHECK(tensor.data_type() == TensorProto::FLOAT);
    CHECK(list_of(tensor.dims(), " ") == list_of(param->shape, " "));
    std::string bytes = tensor.raw_data();
    if (is_external) {
      REQUIRE(tensor.data_location() == TensorProto::EXTERNAL);
      std::map<std::string, std::string> where;
      for (const auto& entry : tensor.external_data()) where[entry.key()] = entry.value();
      CHECK(where.at("location") == "model.onnx.data");
      CHECK(std::stoull(where.at("offset")) % 4096 == 0);
      bytes = beside.substr(std::stoull(where.at("offset")), std::stoull(where.at("length")));
    }
    REQUIRE(bytes.size() == param->size() * sizeof(float));
    std::vector<float> values(param->size());
    std::memcpy(values.data(), bytes.data(), bytes.size());
    // The values of the checkpoint count up.
    CHECK(values.front() == static_cast<float>(param->offset));
    CHECK(values.back() == static_cast<float>(param->offset + param->size() - 1));
  }
  CHECK(found == space.params.size());
}

#include "runtime/export/onnx_graph.h"

#include <cstring>

#include "runtime/export/onnx.pb.h"

namespace muster {
namespace {

using onnx::AttributeProto;
using onnx::TensorProto;

void set_int(onnx::NodeProto& node, const char* name, std::int64_t value) {
  AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(AttributeProto::INT);
  attribute.set_i(value);
}

void set_float(onnx::NodeProto& node, const char* name, float value) {
  AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(AttributeProto::FLOAT);
  attribute.set_f(value);
}

void set_ints(onnx::NodeProto& node, const char* name, const std::vector<std::int64_t>& values) {
  AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(AttributeProto::INTS);
  for (const std::int64_t value : values) attribute.add_ints(value);
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
  set_float(added, "epsilon", epsilon);
  return added.output(0);
}

OnnxValue OnnxGraph::gather(const OnnxValue& table, const OnnxValue& indices) {
  onnx::NodeProto& added = node("Gather", {table, indices});
  set_int(added, "axis", 0);
  return added.output(0);
}

OnnxValue OnnxGraph::transpose(const OnnxValue& x, const std::vector<std::int64_t>& order) {
  onnx::NodeProto& added = node("Transpose", {x});
  set_ints(added, "perm", order);
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

}  // namespace muster

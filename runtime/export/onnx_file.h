// model.onnx: the graph of a GPT with its weights.
//
// A message of protobuf ends below 2 GiB, so weights above that, or when asked for, go into
// model.onnx.data beside it (ONNX external data, each at a multiple of 4096 B). Weights within the
// file are streamed behind the rest of the graph, as fields of the same message.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/file/checked.h"
#include "runtime/export/export.h"

namespace muster {

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

inline constexpr std::int64_t onnx_opset = 17;
inline constexpr std::int64_t onnx_ir_version = 8;  // of ONNX 1.12, which has this opset

// A value of the graph, by name.
using OnnxValue = std::string;

// Building an ONNX graph: one function for each operator, which adds its node and returns the name
// of its result. Opset 17, the first with LayerNormalization. Weights are named here and stored
// elsewhere; small constants are part of the graph. One thread.
class OnnxGraph {
 public:
  explicit OnnxGraph(onnx::GraphProto& graph) : graph_(graph) {}

  // Dimensions are numbers, or names of those that are known only when the graph runs.
  OnnxValue input_int64(const std::string& name, const std::vector<std::string>& dimensions);
  void output_float(const OnnxValue& value, const std::string& name,
                    const std::vector<std::string>& dimensions);
  OnnxValue constant(float value);
  OnnxValue constant(const std::vector<std::int64_t>& values);  // one dimension
  OnnxValue scalar(std::int64_t value);                         // no dimension

  OnnxValue add(const OnnxValue& a, const OnnxValue& b) { return result("Add", {a, b}); }
  OnnxValue mul(const OnnxValue& a, const OnnxValue& b) { return result("Mul", {a, b}); }
  OnnxValue mat_mul(const OnnxValue& a, const OnnxValue& b) { return result("MatMul", {a, b}); }
  OnnxValue tanh(const OnnxValue& x) { return result("Tanh", {x}); }
  OnnxValue softmax(const OnnxValue& x);  // over the last dimension
  OnnxValue layer_normalization(const OnnxValue& x, const OnnxValue& weight, const OnnxValue& bias,
                                float epsilon);                        // over the last dimension
  OnnxValue gather(const OnnxValue& table, const OnnxValue& indices);  // rows
  OnnxValue transpose(const OnnxValue& x, const std::vector<std::int64_t>& order);
  // A 0 in the shape: as it is.
  OnnxValue reshape(const OnnxValue& x, const std::vector<std::int64_t>& shape) {
    return result("Reshape", {x, constant(shape)});
  }
  std::vector<OnnxValue> split(const OnnxValue& x, std::size_t parts);  // of the last dimension
  // Dimensions [first, last) of x, as a vector.
  OnnxValue shape(const OnnxValue& x, std::int64_t first, std::int64_t last);
  OnnxValue squeeze(const OnnxValue& x) { return result("Squeeze", {x}); }
  OnnxValue unsqueeze(const OnnxValue& x, std::int64_t axis) {
    return result("Unsqueeze", {x, constant(std::vector{axis})});
  }
  OnnxValue range(const OnnxValue& begin, const OnnxValue& end, const OnnxValue& step) {
    return result("Range", {begin, end, step});
  }
  OnnxValue less_or_equal(const OnnxValue& a, const OnnxValue& b) {
    return result("LessOrEqual", {a, b});
  }
  OnnxValue where(const OnnxValue& condition, const OnnxValue& yes, const OnnxValue& no) {
    return result("Where", {condition, yes, no});
  }

 private:
  onnx::NodeProto& node(const char* op, const std::vector<OnnxValue>& inputs,
                        std::size_t outputs = 1);
  OnnxValue result(const char* op, const std::vector<OnnxValue>& inputs);
  OnnxValue initializer(const std::string& key, std::int32_t type,
                        const std::vector<std::int64_t>& dimensions, const std::string& bytes);

  onnx::GraphProto& graph_;
  std::map<std::string, OnnxValue> constants_;  // by type and bytes
};

Checked<NoValue> write_onnx_file(const ExportedModel& model, CheckpointReader& reader,
                                 const std::string& directory, bool external_data);

}  // namespace muster

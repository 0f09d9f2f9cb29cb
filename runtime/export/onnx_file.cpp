#include "runtime/export/onnx_file.h"

#include "runtime/export/export.h"
#include "runtime/export/gpt_graph.h"
#include "runtime/export/onnx.pb.h"
#include "runtime/export/onnx_graph.h"

#ifndef MUSTER_VERSION
#define MUSTER_VERSION "unknown"
#endif

namespace muster {
namespace {

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

Checked<NoValue> write_onnx_file(const ExportedModel& model, CheckpointReader& reader,
                                 const OnnxTarget& target) {
  onnx::GraphProto graph;
  graph.set_name("gpt");
  OnnxGraph builder(graph);
  build_gpt_graph(model, builder);
  if (target.external_data || model.bytes() > embedded_limit_bytes) {
    return write_external(model, reader, target.directory, std::move(graph));
  }
  return write_embedded(model, reader, target.directory + "/" + model_name, graph);
}

}  // namespace muster

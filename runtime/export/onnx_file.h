// model.onnx: the graph of a GPT with its weights.
//
// A message of protobuf ends below 2 GiB, so weights above that, or when asked for, go into
// model.onnx.data beside it (ONNX external data, each at a multiple of 4096 B). Weights within the
// file are streamed behind the rest of the graph, as fields of the same message.
#pragma once

#include <string>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/export/exported_model.h"

namespace muster {

Checked<NoValue> write_onnx_file(const ExportedModel& model, CheckpointReader& reader,
                                 const std::string& directory, bool external_data);

}  // namespace muster

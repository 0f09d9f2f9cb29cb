// The GPT of runtime/model/gpt.h as an ONNX graph for inference:
//
//   tokens [batch, sequence] int64  ->  logits [batch, sequence, vocabulary] float
//
// with any batch and up to `context` tokens in a sequence. Weights are values of the graph under
// the names of the checkpoint.
#pragma once

#include "runtime/export/exported_model.h"

namespace muster {

class OnnxGraph;

void build_gpt_graph(const ExportedModel& model, OnnxGraph& graph);

}  // namespace muster

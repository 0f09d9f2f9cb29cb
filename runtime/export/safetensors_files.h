// Weights in the layout of Hugging Face's transformers for GPT2LMHeadModel: config.json and
// model.safetensors, or above the wanted size model-0000i-of-0000n.safetensors and
// model.safetensors.index.json.
//
// Tensors bear the names that transformers itself saves, `transformer.` before all but
// `lm_head.weight`: with an untied head it takes no others. A tied head is not stored twice. Shapes
// are those of its Conv1D, [in, out], which are ours. A tensor is never cut: one that is larger
// than the wanted size has a file of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/export/exported_model.h"

namespace muster {

struct SafetensorsTarget {
  std::string directory;
  std::uint64_t shard_bytes = 0;  // of tensors in one file
  std::optional<std::uint64_t> end_id = {};  // the token that ends a document, and begins one
};

Checked<NoValue> write_safetensors_files(const ExportedModel& model, CheckpointReader& reader,
                                         const SafetensorsTarget& target);

}  // namespace muster

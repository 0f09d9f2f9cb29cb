// A checkpoint seen as a GPT: its shape, and where each of its tensors lies in the flat space.
//
// The shape comes from the tensors themselves, which the manifest lists; only the number of heads,
// which leaves no trace in them, is an option of the training run. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/model/gpt.h"

namespace muster {

// In F32, as it is exported.
inline std::uint64_t tensor_bytes(const FlatParameter& tensor) {
  return tensor.size() * sizeof(float);
}

struct ExportedModel : GptShape {
  std::vector<FlatParameter> tensors;  // as the manifest has them, in its order
  std::uint64_t bytes() const;         // of all tensors, in F32
};

// A fault for everything that is not a GPT of this shape.
Checked<ExportedModel> exported_model(const Manifest& manifest);

}  // namespace muster

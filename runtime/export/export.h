// The weights of a checkpoint for other programs: `muster checkpoint export`.
//
// Everything is written into a new directory beside the wanted one, whose name ends in `.partial`,
// made durable, what the caller adds too, and renamed as a whole: what bears the wanted name is
// complete. Only the plane `master` is read, chunk by chunk with its checksums. The tokenizer lies
// beside the weights where the run had one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/model/gpt.h"

namespace muster {

// A checkpoint seen as a GPT: its shape, and where each of its tensors lies in the flat space.
//
// The shape comes from the tensors themselves, which the manifest lists; only the number of heads,
// which leaves no trace in them, is an option of the training run. Plain data.

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

enum class ExportFormat {
  safetensors,  // for transformers
  onnx,         // onnx_file.h
};

struct ExportedFile {
  std::string name;
  std::uint64_t bytes = 0;
};

struct ExportOptions {
  ExportFormat format = ExportFormat::safetensors;
  std::string directory;                      // must not exist, or be empty
  std::uint64_t shard_bytes = 5'000'000'000;  // largest file of safetensors, as transformers has it
  bool external_data = false;                 // ONNX: weights in a file of their own
  // Writes more into the directory where the files lie, each of them durable by then, and names it.
  std::function<Checked<NoValue>(const std::string& directory, std::vector<ExportedFile>& files)>
      complete = {};
};

// Exports the checkpoint at `path`; returns what now lies in the directory.
Checked<std::vector<ExportedFile>> export_checkpoint(const std::string& path,
                                                     const ExportOptions& options);

// A file that is written from its beginning to its end, with tensors taken out of a checkpoint in
// pieces of 4 MiB. Memory does not grow with the model.
class ExportFile {
 public:
  // `bytes`: how long it will be, reserved at once.
  static Checked<ExportFile> create(const std::string& path, std::uint64_t bytes);

  Checked<NoValue> append(std::string_view bytes);
  // The values of `tensor` out of the plane `master`, little-endian F32.
  Checked<NoValue> append_tensor(CheckpointReader& reader, const FlatParameter& tensor);
  std::uint64_t size() const { return offset_; }
  Checked<NoValue> sync_and_close() { return file_.sync_and_close(); }

 private:
  explicit ExportFile(CheckpointFile file) : file_(std::move(file)) {}
  CheckpointFile file_;
  std::uint64_t offset_ = 0;
  std::vector<float> piece_;
};

}  // namespace muster

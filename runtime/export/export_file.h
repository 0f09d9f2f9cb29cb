// A file that is written from its beginning to its end, with tensors taken out of a checkpoint in
// pieces of 4 MiB. Memory does not grow with the model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/reader.h"

namespace muster {

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

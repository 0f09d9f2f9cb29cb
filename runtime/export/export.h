// The weights of a checkpoint for other programs: `muster checkpoint export`.
//
// Everything is written into a new directory beside the wanted one, whose name ends in `.partial`,
// made durable and renamed as a whole: what bears the wanted name is complete. Only the plane
// `master` is read, chunk by chunk with its checksums.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/checkpoint/checked.h"

namespace muster {

enum class ExportFormat {
  safetensors,  // safetensors_files.h
  onnx,         // onnx_file.h
};

struct ExportOptions {
  ExportFormat format = ExportFormat::safetensors;
  std::string directory;                      // must not exist, or be empty
  std::uint64_t shard_bytes = 5'000'000'000;  // largest file of safetensors, as transformers has it
  bool external_data = false;                 // ONNX: weights in a file of their own
};

struct ExportedFile {
  std::string name;
  std::uint64_t bytes = 0;
};

// Exports the checkpoint at `path`; returns what now lies in the directory.
Checked<std::vector<ExportedFile>> export_checkpoint(const std::string& path,
                                                     const ExportOptions& options);

}  // namespace muster

// `muster checkpoint export`: the weights of one checkpoint, for other programs.
#pragma once

#include <string>

#include "cli/terminal/common_options.h"

namespace muster {

struct CheckpointExportOptions {
  std::string subject;
  std::string format = "safetensors";
  std::string directory;
  std::string shard_size;
  bool external_data = false;
  bool sha256 = false;
};

int export_weights(const CheckpointExportOptions& options, const CommonOptions& common);

}  // namespace muster

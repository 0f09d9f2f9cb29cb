// `muster checkpoint verify`: which checkpoints are meant, reading them with progress on a
// terminal, and saying what was found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/terminal/common_options.h"

namespace muster {

struct CheckpointVerifyOptions {
  std::string subject;
  bool all = false;
  std::optional<std::int64_t> threads;
};

// 0: all that were asked for are good, 1: not.
int verify_checkpoints(const CheckpointVerifyOptions& options, const CommonOptions& common);

}  // namespace muster

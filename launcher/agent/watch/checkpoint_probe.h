// The newest sealed checkpoints below a directory, as the journal names them. Reads files, may
// block on a slow file system: the agent asks from a child process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "scheduler/model/record.h"

namespace muster {

struct CheckpointProbe {
  std::optional<CheckpointRef> newest;
  std::optional<CheckpointRef> newest_certified;  // training went on well after it
  std::optional<CheckpointRef> asked;             // of the step asked for, in its newest history
  std::string trouble;  // there may be newer ones that could not be looked at; empty: no trouble
};

CheckpointProbe probe_checkpoints(const std::string& directory,
                                  std::optional<std::int64_t> asked_step = std::nullopt);

}  // namespace muster

// The newest sealed checkpoint below a directory, as the journal names it. Reads files, may block
// on a slow file system: the agent asks from a child process.
#pragma once

#include <optional>
#include <string>

#include "scheduler/model/record.h"

namespace muster {

std::optional<CheckpointRef> probe_checkpoint(const std::string& directory);

}  // namespace muster

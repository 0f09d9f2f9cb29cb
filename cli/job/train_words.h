// Finding the options of muster-train in a job's command, which is a line for a shell. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/job_spec.h"

namespace muster {

// The words after the first muster-train that the command starts, up to the end of that command,
// without their quotes; nothing when it starts none, or one of its tools (muster-train tokenize).
// What only a shell knows, such as "$STEPS", stays as it is.
std::optional<std::vector<std::string>> train_words(const JobSpec& spec);

}  // namespace muster

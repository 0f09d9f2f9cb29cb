// A node as Slurm shows it: the line of `scontrol show node -o NAME`. Pure.
#pragma once

#include <string_view>

#include "health/output/slurm.h"
#include "scheduler/model/result.h"

namespace muster {

// An Error: it is no such line, or of another node than `name`.
Result<SlurmNode> parse_slurm_node(std::string_view text, std::string_view name);

}  // namespace muster

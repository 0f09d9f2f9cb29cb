// The trees of a job between submission and its attempts: `$MUSTER_HOME/jobs/<job>/trees.json`.
//
// Format, version 1: {"version": 1, "trees": [Tree…]} with the field names of agent_message.h.
// `path` and `target` are escaped names.
#pragma once

#include <filesystem>
#include <vector>

#include "launcher/wire/agent_message.h"
#include "scheduler/model/result.h"

namespace muster {

Status save_trees(const std::filesystem::path& file, const std::vector<Tree>& trees);
Result<std::vector<Tree>> load_trees(const std::filesystem::path& file);

}  // namespace muster

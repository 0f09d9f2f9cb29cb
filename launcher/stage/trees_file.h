// The trees of a job between submission and its attempts: `$MUSTER_HOME/jobs/<job>/trees.json`.
//
// Format, version 1: {"version": 1, "trees": [Tree…]} with the field names of agent_message.h. JSON
// holds only UTF-8 and file names hold any bytes: in `path` and `target` a `%` is written `%25`,
// and where the name is not UTF-8 each of its bytes above 0x7f is written `%hh`.
#pragma once

#include <filesystem>
#include <vector>

#include "launcher/wire/agent_message.h"
#include "scheduler/model/result.h"

namespace muster {

Status save_trees(const std::filesystem::path& file, const std::vector<Tree>& trees);
Result<std::vector<Tree>> load_trees(const std::filesystem::path& file);

}  // namespace muster

// The trees of a job between submission and its attempts: `$MUSTER_HOME/jobs/<job>/trees.json`.
//
// Format, version 1: {"version": 1, "trees": [Tree…]} with the field names of agent_message.h.
// `path` and `target` are escaped names.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "launcher/wire/agent_message.h"
#include "scheduler/model/result.h"

namespace muster {

Status save_trees(const std::filesystem::path& file, const std::vector<Tree>& trees);
Result<std::vector<Tree>> load_trees(const std::filesystem::path& file);

// What `take` makes of a file of such a version or an older one; it may throw what reading JSON
// throws.
Status read_versioned(const std::filesystem::path& file, int version,
                      const std::function<void(const nlohmann::json&)>& take);

// File names in JSON, which holds only UTF-8, while names hold any bytes: a `%` is written `%25`,
// and where the name is not UTF-8 each of its bytes above 0x7f is written `%hh`. Pure.
std::string escaped(const std::string& name);
// Throws std::runtime_error when a `%` is not followed by two hex digits.
std::string unescaped(const std::string& text);

}  // namespace muster

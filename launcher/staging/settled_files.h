// What nodes delivered that left an attempt while it ran: `attempt-<n>/settled.json` of the job. A
// controller that collects from the others later, perhaps another one, replaces none of it.
//
// Format, version 1: {"version": 1, "files": {"<path>": "<what is there>"}}, both escaped names.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "scheduler/model/result.h"

namespace muster {

// Path below the job's directory -> "directory", "link to <target>" or "file <hash>".
using SettledFiles = std::map<std::string, std::string>;

Status save_settled(const std::filesystem::path& file, const SettledFiles& settled);
// None when there is no such file.
Result<SettledFiles> load_settled(const std::filesystem::path& file);

}  // namespace muster

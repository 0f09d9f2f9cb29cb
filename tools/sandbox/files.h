// Whole files and folders of a sandbox: written, read and removed with a reason when that fails.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

#include "scheduler/model/result.h"

namespace muster {

// Replaces the file at once: a reader sees the old text or the new one.
Status write_file(const std::filesystem::path& path, const std::string& text, mode_t mode);

// Nothing: there is no such file.
Result<std::optional<std::string>> read_file_if_there(const std::filesystem::path& path);

// One that is there keeps its mode: it may be somebody's.
Status make_folder(const std::filesystem::path& path, mode_t mode);

// With everything in it, without crossing into another file system or following a link.
void remove_folder(const std::filesystem::path& path);

}  // namespace muster

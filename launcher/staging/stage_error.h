// The sentence for a failed call on a file. Used by every part of staging; any thread. Knows
// nothing of trees or blobs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "scheduler/model/result.h"

namespace muster {

// "cannot <attempt> '<path>': <why>", and for a full file system how much is free and what to do.
Error stage_error(std::string_view attempt, const std::filesystem::path& path, int error_number);

// "3.2 GiB", "17 bytes": for sentences.
std::string readable_bytes(std::int64_t bytes);

}  // namespace muster

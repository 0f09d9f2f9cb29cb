// The end of a file, read from the back: cheap for logs of any size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace muster {

// Where the last `lines` lines of the file begin; 0 when it has fewer, or cannot be read.
std::int64_t offset_of_last_lines(const std::filesystem::path& file, std::int64_t lines);

// Those lines, at most 64 KiB of them; empty when there are none.
std::string last_lines_of_file(const std::filesystem::path& file, std::int64_t lines);

}  // namespace muster

// Files that a person names: read whole, up to a limit, with the reason when that fails.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cli/terminal/common_options.h"
#include "scheduler/model/result.h"
#include "templates/parse_file.h"

namespace muster {

// `-` is standard input. The Error names the path and what is wrong with it.
Result<std::string> read_input(const std::string& path, std::size_t limit_bytes);

// The file system as job files see it.
FileView real_files();

// Files that a verb makes for a person. A file that exists is somebody's work: never overwritten.

// Ends the verb with 2 when it exists, with 99 when it cannot be written.
void write_new_file(const std::string& path, std::string_view text);

}  // namespace muster

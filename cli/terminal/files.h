// Files that a person names: read whole, up to a limit, with the reason when that fails.
#pragma once

#include <cstddef>
#include <string>

#include "scheduler/model/result.h"
#include "templates/parse_file.h"

namespace muster {

// `-` is standard input. The Error names the path and what is wrong with it.
Result<std::string> read_input(const std::string& path, std::size_t limit_bytes);

// The file system as job files see it.
FileView real_files();

}  // namespace muster

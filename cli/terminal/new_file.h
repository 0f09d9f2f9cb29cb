// Files that a verb makes for a person. A file that exists is somebody's work: never overwritten.
#pragma once

#include <string>
#include <string_view>

#include "cli/terminal/common_options.h"

namespace muster {

// 0, or the exit code after saying what is wrong: 2 when it exists, 99 when it cannot be written.
int write_new_file(const std::string& path, std::string_view text, const CommonOptions& common);

}  // namespace muster

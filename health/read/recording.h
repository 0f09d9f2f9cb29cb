// The counterpart of read_files: what was read, as a directory that reads the same. Touches the
// disk; blocks as a write does.
#pragma once

#include <string>

#include "health/model/source_files.h"
#include "scheduler/model/result.h"

namespace muster {

// Below `root`, an empty directory. Links are written last, so that no file is written through one.
// What no file can be, such as a read that failed, goes to `.probes` (files.h). Missing files
// stay missing. An Error: what could not be written.
Status write_files(const SourceFiles& files, const std::string& root);

}  // namespace muster

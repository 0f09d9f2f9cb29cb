// A job file as Azure ML accepts it: the `muster` map becomes `muster.*` strings among the
// properties.
#pragma once

#include <string>

#include "templates/parse_file.h"

namespace muster {

// YAML text. `--set` is applied, comments and anchors are gone. Empty when the file did not parse.
std::string render_for_azure(const JobFile& job);

}  // namespace muster

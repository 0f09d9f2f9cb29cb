// `--profile[=FILE]` of `run` and `status`: tells where the time of the launch went, and writes its
// trace.
#pragma once

#include <string>

#include "cli/grammar/command_line.h"
#include "cli/job/find.h"

namespace muster {

void add_profile_option(Arguments& of, std::string& value);

// The table on stderr, the trace into the file; returns an exit code. `value`: as given, empty when
// the option was not.
int tell_launch(const FoundJob& found, const std::string& value, const CommonOptions& common);

}  // namespace muster

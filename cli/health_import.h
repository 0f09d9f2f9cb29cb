// `muster health import-nhc`: an nhc.conf as health profiles.
#pragma once

#include <string>

#include "cli/terminal/common_options.h"

namespace muster {

struct HealthImportOptions {
  std::string file;
  std::string host;  // empty: a profile for each target
};

// Prints the profiles; what was skipped goes to stderr with its line, and gives exit code 1.
int import_health(const HealthImportOptions& options, const CommonOptions& common);

}  // namespace muster

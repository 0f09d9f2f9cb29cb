// `muster health record`: this host's sources as files, so that what was found can be found again
// elsewhere with `--root`. Holds what the checks read and nothing else: no environment, no keys, no
// command lines of processes.
#pragma once

#include <string>

#include "cli/health/sources.h"
#include "cli/terminal/common_options.h"
#include "health/model/profile.h"

namespace muster {

struct HealthRecordOptions {
  std::string directory;  // absent or empty
  std::string profile;    // empty: by the GPUs
  std::string root;
};

// All that any check of the profile reads, and what a profile is learned from, now. `directory` is
// there and empty.
Status record_sources(HealthSources& sources, const HealthProfile& profile,
                      const std::string& directory);

int record_health(const HealthRecordOptions& options, const CommonOptions& common);

}  // namespace muster

// `muster health learn`: a profile of this machine's kind, from what its sources say now.
#pragma once

#include <string>

#include "cli/health/sources.h"
#include "cli/terminal/common_options.h"

namespace muster {

struct HealthLearnOptions {
  std::string name;      // empty: after the host
  std::string file;      // empty: stdout
  bool measure = false;  // floors too
  std::string disk;      // a directory; empty: no disk is written
  bool force = false;    // measure idle or not
};

// What is left out of the profile, and so is not judged, is said.
int learn_health(const HealthSourcesOptions& where, const HealthLearnOptions& options,
                 const CommonOptions& common);

}  // namespace muster

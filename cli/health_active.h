// `muster health active`: this host measured under load, and judged by the floors of its profile.
// What fails stands in what `muster health` remembers, until it passed often enough.
#pragma once

#include <string>
#include <vector>

#include "cli/common_options.h"

namespace muster {

struct HealthActiveOptions {
  std::string profile;            // a name or a file; empty: by the GPUs
  bool profile_alone = false;     // not over the shipped one of its name
  std::vector<std::string> only;  // probes; none: those that the profile has a floor for
  std::string disk;               // a directory; empty: no disk is written
  bool force = false;             // idle or not
  bool all = false;
  std::string state;  // empty: the usual file, for this host alone
  bool forget = false;
  std::string prometheus_file;
};

int run_health_active(const HealthActiveOptions& options, const CommonOptions& common);

}  // namespace muster

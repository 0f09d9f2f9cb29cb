// `muster health checks` and `muster health profiles`: what is checked, and what comes with the
// program.
#pragma once

#include <string>

#include "cli/terminal/common_options.h"
#include "cli/terminal/document.h"
#include "health/model/profile.h"

namespace muster {

// [{id, source, criterion, severity, class, phases, persistence, cost_us, mode, required, samples,
// limits: [{name, unit, usual, value}]}] of all checks that fit the pattern; mode, required,
// samples and the limits' values as the profile has them.
Document checks_document(const HealthProfile& profile, const std::string& pattern = "*");
struct HealthChecksOptions {
  std::string name;     // or a pattern; empty: all
  std::string profile;  // a name or a file; empty: none
};
// A table of all; of the one that is named all that is known of it.
int show_checks(const HealthChecksOptions& options, const CommonOptions& common);

// Without a name the list, [{name, gpu_name, gpus, ports, rate_gbps}]; with one the file.
int show_profiles(const std::string& name, const CommonOptions& common);

}  // namespace muster

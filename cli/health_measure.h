// Measures this host with the probes that a profile calls for, or that were named; says beforehand
// how long that takes, and refuses a host that is not idle.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "cli/common_options.h"
#include "cli/health_sources.h"
#include "health/active/run_probes.h"
#include "health/profile.h"

namespace muster {

struct MeasureWanted {
  bool learns = false;               // all that the node can run, floor or none
  std::vector<std::string> only;     // these probes, floor or none; none: all
  std::string disk_directory;        // empty: no disk is written
  bool force = false;                // idle or not: what is busy is told, and proves nothing
  std::vector<std::string> program;  // empty: muster agent probe
};

// It was said why.
struct MeasureRefused {
  int exit_code = 0;
};

// Empty, or what is wrong with the names of probes.
std::string misnamed_probe(const std::vector<std::string>& only);

std::variant<ProbeFigures, MeasureRefused> measure_node(HealthSources& sources,
                                                        const HealthProfile& profile,
                                                        const MeasureWanted& wanted,
                                                        const CommonOptions& common);

}  // namespace muster

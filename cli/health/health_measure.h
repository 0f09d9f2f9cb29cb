// Measures this host with the probes that a profile calls for, or that were named; says beforehand
// how long that takes, and refuses a host that is not idle.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/health/sources.h"
#include "cli/terminal/common_options.h"
#include "health/benchmark/run.h"
#include "health/model/profile.h"

namespace muster {

struct MeasureWanted {
  bool learns = false;               // all that the node can run, floor or none
  std::vector<std::string> only;     // these probes, floor or none; none: all
  std::string disk_directory;        // empty: no disk is written
  std::optional<std::chrono::minutes> burn;  // a full load of this time, too
  bool force = false;                // idle or not: what is busy is told, and proves nothing
  bool before_a_job = false;         // that will have the processors as they are
  std::vector<std::string> program;  // empty: muster agent probe
};

// What a person at that host can do about it.
inline constexpr std::string_view force_hint = "; --force measures all the same";

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

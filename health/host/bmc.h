// host.bmc: what the board's management controller has against it. Events of the last day by its
// own clock that are critical and not over, and sensors beyond a critical threshold. Pure.
//
// Sources: "ipmi:time", "ipmi:sel", "ipmi:sdr", as bmc_tool.h reads them. A sensor is bad when it
// is in two readings in a row; one odd poll is none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"

namespace muster {

std::vector<std::string> bmc_sources();
// For the second reading; none: the first one shows no bad sensor.
std::vector<std::string> bmc_sources_again(const SourceFiles& first);

// Nothing: there is no controller or no tool here, and the profile does not ask for the check.
// `again`: the second reading of what bmc_sources_again() names; nullptr: there was none.
std::optional<HealthFinding> judge_bmc(const SourceFiles& first, const SourceFiles* again,
                                       const HealthProfile& profile);

}  // namespace muster

// Processors, their memory nodes, and the limits that ranks start with.
#pragma once

#include <optional>
#include <string_view>

#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"

namespace muster {

// How many a kernel's list ("0-3,8,10-11") holds; nothing when it is none.
std::optional<int> count_in_list(std::string_view list);

std::optional<HealthFinding> judge_processors(const SourceFiles& files,
                                              const HealthProfile& profile);
std::optional<HealthFinding> judge_numa(const SourceFiles& files, const HealthProfile& profile);
// Of the process that starts ranks. Judged where the profile says how many files, or has ports,
// which need locked memory.
std::optional<HealthFinding> judge_limits(const SourceFiles& files, const HealthProfile& profile);

}  // namespace muster

// Memory, swap space and huge pages, from /proc/meminfo.
#pragma once

#include <optional>

#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"

namespace muster {

std::optional<HealthFinding> judge_memory(const SourceFiles& files, const HealthProfile& profile);
std::optional<HealthFinding> judge_swap(const SourceFiles& files, const HealthProfile& profile);
std::optional<HealthFinding> judge_hugepages(const SourceFiles& files,
                                             const HealthProfile& profile);

}  // namespace muster

// gpu.devnodes: whether who launches ranks can open the driver's device nodes. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"

namespace muster {

// For read_files: `open:` of each. Of as many GPUs as the profile says; none where it does not.
std::vector<std::string> gpu_device_nodes(const HealthProfile& profile);
std::optional<HealthFinding> judge_gpu_device_nodes(const SourceFiles& files,
                                                    const HealthProfile& profile);

}  // namespace muster

// All that the host's checks read, and the judgement of one reading of it. Checks over time or over
// many nodes have judges of their own: edac.h, processes.h, kernel.h, versions.h, liveness.h,
// fleet.h. Those of the kernel's log are judged with the log.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"
#include "scheduler/text/clock.h"

namespace muster {

// For read_files. What may hang comes last: file systems that are not local.
std::vector<std::string> host_sources(const HealthProfile& profile);

// What is known of the node besides its files.
struct HostSituation {
  std::optional<Milliseconds> clock_offset;  // from the controller's
  std::set<std::int64_t> ended_uids;         // users that ran here and run nothing now
};

std::vector<HealthFinding> judge_host(const SourceFiles& files, const HealthProfile& profile,
                                      const HostSituation& situation);

}  // namespace muster

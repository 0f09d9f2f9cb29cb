// Free space, NVMe disks, and shared memory with what ended jobs left in it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"

namespace muster {

// One finding for each of the profile's disks.
std::vector<HealthFinding> judge_disks(const SourceFiles& files, const HealthProfile& profile);
// One for each disk that is there, and one for their count where the profile says it.
std::vector<HealthFinding> judge_nvmes(const SourceFiles& files, const HealthProfile& profile);

// Files in /dev/shm that libraries of a job left there, of users in `ended_uids`: those that run
// nothing on the node now.
std::vector<std::string> shared_memory_leftovers(const SourceFiles& files,
                                                 const std::set<std::int64_t>& ended_uids);
// The size of /dev/shm fails the check; left-overs, which can be removed, are only written down.
std::vector<HealthFinding> judge_shared_memory(const SourceFiles& files,
                                               const HealthProfile& profile,
                                               const std::set<std::int64_t>& ended_uids);

}  // namespace muster

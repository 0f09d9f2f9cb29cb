// What ended jobs left in shared memory.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "health/model/source_files.h"

namespace muster {

// Files in /dev/shm that libraries of a job left there, of users in `ended_uids`: those that run
// nothing on the node now.
std::vector<std::string> shared_memory_leftovers(const SourceFiles& files,
                                                 const std::set<std::int64_t>& ended_uids);
}  // namespace muster

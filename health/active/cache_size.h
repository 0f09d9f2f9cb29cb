// How large the processors' last caches are together, from what the kernel says of them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "health/model/source_files.h"

namespace muster {

std::vector<std::string> cache_sources();

// Each cache once, however many processors share it. Nothing when the kernel says nothing, as in
// some virtual machines.
std::optional<std::uint64_t> last_cache_bytes(const SourceFiles& files);

}  // namespace muster

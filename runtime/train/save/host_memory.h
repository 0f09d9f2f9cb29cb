// How much memory this process may still take on its host.
//
// The smaller one of what the system calls available, and what the limits of the control groups
// above this process leave (version 2; files in the page cache count as free). Reads /proc and
// /sys/fs/cgroup, or what a test puts in their place; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster {

// None: nothing could be found out.
std::optional<std::uint64_t> available_memory_bytes(const std::string& proc = "/proc",
                                                    const std::string& cgroups = "/sys/fs/cgroup");

}  // namespace muster

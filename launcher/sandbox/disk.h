// A disk of a chosen size, in memory, and filling it. As root.
#pragma once

#include <filesystem>

#include "scheduler/model/result.h"

namespace muster {

Status mount_sized(const std::filesystem::path& at, int size_mib);
// Without a word when nothing is mounted there.
void unmount(const std::filesystem::path& at);
bool is_mounted(const std::filesystem::path& at);

// A file that takes all the space there is.
Status fill_up(const std::filesystem::path& file);

}  // namespace muster

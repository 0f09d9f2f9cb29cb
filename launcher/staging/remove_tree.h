// Removes a directory and all below it, never following a link. Directories that their owner may
// not write to are opened up first: ranks leave such things.
#pragma once

#include <filesystem>

#include "scheduler/model/result.h"

namespace muster {

// An absent tree is removed already.
Status remove_tree(const std::filesystem::path& directory);

}  // namespace muster

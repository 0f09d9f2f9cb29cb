// Lists of processors and memory nodes, as the kernel writes them.
#pragma once

#include <optional>
#include <string_view>

namespace muster {

// How many a kernel's list ("0-3,8,10-11") holds; nothing when it is none.
std::optional<int> count_in_list(std::string_view list);

}  // namespace muster

// The kernel's lists of processors: "0-3,8". Pure.
#pragma once

#include <string_view>
#include <vector>

namespace muster {

// More than any kernel is built for.
inline constexpr int listed_processor_max = 1 << 20;

// Nothing when it is no list.
std::vector<int> read_processor_list(std::string_view text);

}  // namespace muster

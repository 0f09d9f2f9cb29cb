// What the kernel takes for one argument or environment variable of a program, its final NUL and a
// variable's name and `=` included: 32 pages of 4 KiB (MAX_ARG_STRLEN), whatever `ulimit` says.
#pragma once

#include <cstddef>

namespace muster {

inline constexpr std::size_t exec_string_limit_bytes = 131072;

}  // namespace muster

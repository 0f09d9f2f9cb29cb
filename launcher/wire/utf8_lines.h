// Bytes that a program wrote, as text that may go into JSON. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// What is not UTF-8 becomes U+FFFD.
std::string to_utf8(std::string_view bytes);

// The last `count` non-empty lines of `bytes`, oldest first, each cut to a readable length.
std::vector<std::string> last_utf8_lines(std::string_view bytes, std::size_t count);

}  // namespace muster

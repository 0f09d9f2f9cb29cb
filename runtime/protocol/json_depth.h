// Whether a JSON text nests deeper than any that is written here: what reads or frees it calls
// itself for every level, and would run out of stack. Of a text that is no JSON it says nothing.
// Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace muster {

inline constexpr std::size_t json_depth_limit = 64;

inline bool nests_too_deeply(std::string_view text) {
  std::size_t depth = 0;
  bool is_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (is_string && c == '\\')
      ++at;
    else if (c == '"')
      is_string = !is_string;
    else if (!is_string && (c == '[' || c == '{') && ++depth > json_depth_limit)
      return true;
    else if (!is_string && (c == ']' || c == '}') && depth > 0)
      --depth;
  }
  return false;
}

}  // namespace muster

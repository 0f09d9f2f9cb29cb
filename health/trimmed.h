// Text without the white space at its ends.
#pragma once

#include <string_view>

namespace muster {

inline constexpr std::string_view white_space = " \t\r\n";

inline std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(white_space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(white_space) - begin + 1);
}

}  // namespace muster

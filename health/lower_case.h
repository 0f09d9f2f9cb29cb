// Text with small letters for capital ones: of ASCII, whatever the locale.
#pragma once

#include <string>
#include <string_view>

namespace muster {

inline std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

}  // namespace muster

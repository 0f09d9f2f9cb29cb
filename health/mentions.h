// Whether a text holds another, anywhere in it.
#pragma once

#include <string_view>

namespace muster {

inline bool mentions(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

}  // namespace muster

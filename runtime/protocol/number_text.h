// Numbers in texts.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "scheduler/text/number.h"

namespace muster {

// Of a text that is a whole number, in decimal digits, and nothing else.
inline std::optional<std::uint64_t> read_whole_number(std::string_view text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

}  // namespace muster

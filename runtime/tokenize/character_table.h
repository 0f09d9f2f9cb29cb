// Which code points above ASCII are letters (general category L) and which are numbers (N).
//
// From UnicodeData.txt of Unicode 14.0, as ranges of first and last code point in rising order.
#pragma once

#include <cstdint>
#include <span>

namespace muster {

struct CharacterRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

std::span<const CharacterRange> letter_ranges();
std::span<const CharacterRange> number_ranges();

}  // namespace muster

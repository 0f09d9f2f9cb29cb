#include "runtime/checkpoint/base64.h"

#include <array>

namespace muster {
namespace {

constexpr std::string_view letters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Three bytes, of which the first `valid` count, become four letters.
std::string encode_group(std::array<unsigned, 3> bytes, int valid) {
  const unsigned bits = bytes[0] << 16 | bytes[1] << 8 | bytes[2];
  std::string group(4, '=');
  for (int i = 0; i <= valid; ++i) group[i] = letters[bits >> (18 - 6 * i) & 63];
  return group;
}

}  // namespace

std::string base64_of_u32(std::span<const std::uint32_t> numbers) {
  std::string text;
  std::array<unsigned, 3> group{};
  int filled = 0;
  for (const std::uint32_t number : numbers) {
    for (int shift = 0; shift < 32; shift += 8) {
      group[filled++] = number >> shift & 0xFF;
      if (filled < 3) continue;
      text += encode_group(group, 3);
      group = {};
      filled = 0;
    }
  }
  if (filled > 0) text += encode_group(group, filled);
  return text;
}

std::optional<std::vector<std::uint32_t>> u32_of_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::vector<std::uint32_t> numbers;
  unsigned bits = 0;
  int bit_count = 0;
  std::uint32_t number = 0;
  int bytes = 0;
  for (const char letter : text.substr(0, text.find('='))) {
    const std::size_t value = letters.find(letter);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6 | static_cast<unsigned>(value)) & 0xFFFF;
    bit_count += 6;
    if (bit_count < 8) continue;
    bit_count -= 8;
    number |= std::uint32_t{bits >> bit_count & 0xFF} << (8 * bytes);
    if (++bytes < 4) continue;
    numbers.push_back(number);
    number = 0;
    bytes = 0;
  }
  // Only the canonical text counts: this also refuses stray padding, stray bits and a cut number.
  if (base64_of_u32(numbers) != text) return std::nullopt;
  return numbers;
}

}  // namespace muster

#include "scheduler/text/number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace muster {

namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string formatted(const char* form, double value) {
  char text[80];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

std::string number_text(double value) {
  return formatted("%.6g", value);
}

std::optional<double> read_number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  const bool is_number = error == std::errc() && at == end && std::isfinite(value) && value >= 0;
  return is_number ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> read_integer(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && at == end ? std::optional(value) : std::nullopt;
}

std::string encode_base64(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned bits = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += j <= count ? alphabet[bits >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

std::string decode_base64(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == ' ') continue;
    const std::size_t digit = alphabet.find(c);
    if (digit == std::string_view::npos) break;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

std::string base64_of_u32(std::span<const std::uint32_t> numbers) {
  std::string bytes;
  for (const std::uint32_t number : numbers) {
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(number >> shift & 0xff);
  }
  return encode_base64(bytes);
}

std::optional<std::vector<std::uint32_t>> u32_of_base64(std::string_view text) {
  const std::string bytes = decode_base64(text);
  std::vector<std::uint32_t> numbers(bytes.size() / 4);
  for (std::size_t i = 0; i < 4 * numbers.size(); ++i) {
    numbers[i / 4] |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (i % 4 * 8);
  }
  // Only the canonical text counts: this also refuses stray padding, stray bits and a cut number.
  if (base64_of_u32(numbers) != text) return std::nullopt;
  return numbers;
}

}  // namespace muster

// Numbers and bytes as text. Pure, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// As printf writes it: "%.1f ms" and "%.4f" for 0.25 give "0.2 ms" and "0.2500".
std::string formatted(const char* form, double value);
// Six digits: "0.5", "123456", "1.5e+12".
std::string number_text(double value);

// Of a text that is a finite number of 0 or more, and nothing else.
std::optional<double> read_number(std::string_view text);
// Of a text that is a whole number, and nothing else.
std::optional<std::int64_t> read_integer(std::string_view text);

std::string encode_base64(std::string_view bytes);  // RFC 4648: padded, on one line

// Skips white space and stops at the first character that is not base64.
std::string decode_base64(std::string_view text);

// Of the numbers' bytes, little-endian: how a manifest keeps chunk CRCs.
std::string base64_of_u32(std::span<const std::uint32_t> numbers);

// None when the text is not canonical base64 of a whole count of numbers.
std::optional<std::vector<std::uint32_t>> u32_of_base64(std::string_view text);

}  // namespace muster

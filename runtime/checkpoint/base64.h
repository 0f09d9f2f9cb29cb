// Base64 (RFC 4648, with padding) of arrays of 32-bit numbers, little-endian: how a manifest keeps
// chunk CRCs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

std::string base64_of_u32(std::span<const std::uint32_t> numbers);

// None when the text is not canonical base64 of a whole count of numbers.
std::optional<std::vector<std::uint32_t>> u32_of_base64(std::string_view text);

}  // namespace muster

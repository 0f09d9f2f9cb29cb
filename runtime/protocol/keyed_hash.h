// HMAC-SHA256: what only who has the key can make of a text. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster {

inline constexpr std::size_t keyed_hash_bytes = 32;

std::string keyed_hash(std::string_view key, std::string_view text);

// Takes as long wherever the first difference is.
bool equal_secrets(std::string_view a, std::string_view b);

std::string hex_text(std::string_view bytes);

}  // namespace muster

// Base64 as ssh's files use it. Pure, any thread.
#pragma once

#include <string>
#include <string_view>

namespace muster {

std::string encode_base64(std::string_view bytes);  // padded, on one line

// Skips white space and stops at the first character that is not base64.
std::string decode_base64(std::string_view text);

}  // namespace muster

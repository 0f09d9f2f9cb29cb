#include "launcher/staging/escaped_name.h"

#include <charconv>
#include <stdexcept>
#include <string_view>

#include "launcher/wire/json_fields.h"

namespace muster {

namespace {

bool is_utf8(const std::string& text) {
  try {
    (void)Json(text).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

}  // namespace

std::string escaped(const std::string& name) {
  static constexpr std::string_view digits = "0123456789abcdef";
  const bool keeps_high_bytes = is_utf8(name);
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '%' || (byte >= 0x80 && !keeps_high_bytes)) {
      text += '%';
      text += digits[byte >> 4];
      text += digits[byte & 15];
    } else {
      text += c;
    }
  }
  return text;
}

std::string unescaped(const std::string& text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      name += text[i];
      continue;
    }
    unsigned int byte = 0;
    const char* digits = text.data() + i + 1;
    if (i + 2 >= text.size() || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) {
      throw std::runtime_error("'" + text + "' has a '%' without two hex digits");
    }
    name += static_cast<char>(byte);
    i += 2;
  }
  return name;
}

}  // namespace muster

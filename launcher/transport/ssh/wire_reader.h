// The numbers and length-prefixed strings of the ssh wire format, as key files, ssh agents and
// logins use it. What is cut short reads as nothing, never beyond the end. For launcher/transport
// and launcher/relay.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

inline std::string wire_number(std::size_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

inline std::string wire_string(std::string_view text) {
  return wire_number(text.size()).append(text);
}

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  std::optional<std::uint32_t> number() {
    if (bytes_.size() < 4) return {};
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes_[i]);
    bytes_.remove_prefix(4);
    return value;
  }

  std::string_view string() {
    const auto size = number();
    if (!size || *size > bytes_.size()) return {};
    const std::string_view text = bytes_.substr(0, *size);
    bytes_.remove_prefix(*size);
    return text;
  }

 private:
  std::string_view bytes_;
};

}  // namespace muster

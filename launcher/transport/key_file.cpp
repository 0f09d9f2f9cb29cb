#include "launcher/transport/key_file.h"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>

namespace muster {
namespace {

constexpr std::string_view openssh_begin = "-----BEGIN OPENSSH PRIVATE KEY-----";
constexpr std::string_view openssh_magic{"openssh-key-v1\0", 15};

int base64_digit(char c) {
  constexpr std::string_view alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::size_t at = alphabet.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

// Stops at the first character that is neither base64 nor white space.
std::string decode_base64(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == ' ') continue;
    const int digit = base64_digit(c);
    if (digit < 0) break;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

// Reads the length-prefixed strings of the ssh wire format.
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

KeyKind kind_named(std::string_view name) {
  if (name == "ssh-ed25519") return KeyKind::ed25519;
  if (name.starts_with("ecdsa-sha2-nistp") && name.find('@') == name.npos) return KeyKind::ecdsa;
  if (name == "ssh-rsa") return KeyKind::rsa;
  return KeyKind::other;
}

void read_openssh(KeyFile& key, std::string_view text) {
  const std::string bytes = decode_base64(text);
  if (!std::string_view(bytes).starts_with(openssh_magic)) return;
  WireReader reader(std::string_view(bytes).substr(openssh_magic.size()));
  key.has_passphrase = reader.string() != "none";
  reader.string();  // key derivation
  reader.string();  // its options
  if (reader.number() != 1u) return;
  key.public_blob = reader.string();
  key.kind = kind_named(WireReader(key.public_blob).string());
}

}  // namespace

KeyFile parse_key_file(std::string path, std::string_view text) {
  KeyFile key;
  key.path = std::move(path);
  const auto contains = [&](std::string_view part) { return text.find(part) != text.npos; };
  if (const std::size_t at = text.find(openssh_begin); at != text.npos) {
    read_openssh(key, text.substr(at + openssh_begin.size()));
    return key;
  }
  key.has_passphrase = contains("ENCRYPTED");
  if (contains("BEGIN RSA PRIVATE KEY")) key.kind = KeyKind::rsa;
  if (contains("BEGIN EC PRIVATE KEY")) key.kind = KeyKind::ecdsa;
  return key;
}

bool read_key_file(const std::string& path, KeyFile& key) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file || text.empty()) return false;
  key = parse_key_file(path, text);
  return true;
}

}  // namespace muster

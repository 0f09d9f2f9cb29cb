#include "launcher/transport/ssh/key_file.h"


#include "launcher/os/read_file.h"
#include "launcher/transport/base64.h"
#include "launcher/transport/ssh/wire_reader.h"

namespace muster {
namespace {

constexpr std::string_view openssh_begin = "-----BEGIN OPENSSH PRIVATE KEY-----";
constexpr std::string_view openssh_magic{"openssh-key-v1\0", 15};

KeyKind kind_named(std::string_view name) {
  if (name == "ssh-ed25519") return KeyKind::ed25519;
  if (name.starts_with("ecdsa-sha2-nistp") && name.find('@') == name.npos) return KeyKind::ecdsa;
  if (name == "ssh-rsa") return KeyKind::rsa;
  return KeyKind::other;
}

// Fills in what is public, returns what is not.
std::string read_openssh(KeyFile& key, std::string_view text) {
  const std::string bytes = decode_base64(text);
  if (!std::string_view(bytes).starts_with(openssh_magic)) return {};
  WireReader reader(std::string_view(bytes).substr(openssh_magic.size()));
  key.has_passphrase = reader.string() != "none";
  reader.string();  // key derivation
  reader.string();  // its options
  if (reader.number() != 1u) return {};
  key.public_blob = reader.string();
  key.kind = kind_named(WireReader(key.public_blob).string());
  return std::string(reader.string());
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
  return key;
}

bool read_key_file(const std::string& path, KeyFile& key) {
  const std::string text = text_of_file(path);
  if (text.empty()) return false;
  key = parse_key_file(path, text);
  return true;
}

std::string read_key_secrets(const std::string& path) {
  const std::string text = text_of_file(path);
  const std::size_t at = text.find(openssh_begin);
  if (at == text.npos) return {};
  KeyFile key;
  std::string secrets = read_openssh(key, std::string_view(text).substr(at + openssh_begin.size()));
  return key.has_passphrase ? std::string() : secrets;
}

}  // namespace muster

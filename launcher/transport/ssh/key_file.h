// What kind of private key a file holds: enough to say beforehand whether we can sign with it. Pure
// parsing of the OpenSSH and PEM formats, plus two readers. In PEM only RSA keys are known.
#pragma once

#include <string>
#include <string_view>

namespace muster {

enum class KeyKind { ed25519, ecdsa, rsa, other };

struct KeyFile {
  std::string path;
  KeyKind kind = KeyKind::other;
  bool has_passphrase = false;
  std::string public_blob;  // ssh wire format, as an agent lists it; empty in PEM files
};

// The text of a private key file.
KeyFile parse_key_file(std::string path, std::string_view text);

// False when there is no readable file.
bool read_key_file(const std::string& path, KeyFile& key);

// The secret section of a file in OpenSSH's format; empty: there is none, or it has a passphrase.
std::string read_key_secrets(const std::string& path);

}  // namespace muster

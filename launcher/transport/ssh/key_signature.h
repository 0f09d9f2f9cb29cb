// Signs a login with a private key file, as an ssh agent would. Ed25519 and ECDSA keys in OpenSSH's
// format and without a passphrase. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster {

// The bare signature, without the name of its algorithm. Nothing: the file has no such key.
std::optional<std::string> sign_with_key_file(const std::string& path, std::string_view data);

}  // namespace muster

// What kind of private key a file holds: enough to say beforehand whether we can sign with it. Pure
// parsing of the OpenSSH and PEM formats, plus two readers. In PEM only RSA keys are known.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace boost::asio {
class io_context;
}

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

// Nothing: there is no readable file.
std::optional<KeyFile> read_key_file(const std::string& path);

// Signs a login with a private key file, as an ssh agent would. Ed25519 and ECDSA keys in OpenSSH's
// format and without a passphrase. Any thread.

// The bare signature, without the name of its algorithm. Nothing: the file has no such key.
std::optional<std::string> sign_with_key_file(const std::string& path, std::string_view data);

// The numbers and length-prefixed strings of the ssh wire format, as key files, ssh agents and
// logins use it. What is cut short reads as nothing, never beyond the end. For launcher/transport
// and launcher/relay.

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

// The user's ssh agent, asked over its Unix socket without ever holding up the thread: a forwarded
// agent whose network is gone accepts connections and says nothing. Every question has a deadline.
// Callbacks come from the io_context, and none after the object is gone.
// Private to launcher/transport; one thread.

struct AgentKey {
  std::string blob;  // the public key in ssh's wire format
  std::string comment;
};

// What an agent answers, from behind the length; nothing: it refuses, or the answer is damaged.
std::optional<std::vector<AgentKey>> parse_agent_keys(std::string_view answer);
std::optional<std::string> parse_agent_signature(std::string_view answer);

// One question at a time.
class SshAgent {
 public:
  SshAgent(boost::asio::io_context& io, const std::string& socket);
  SshAgent(const SshAgent&) = delete;
  ~SshAgent();  // calls nothing afterwards

  // Nothing: no answer in time.
  void list(std::function<void(std::optional<std::vector<AgentKey>>)> done);
  // The bare signature, without the name of its algorithm.
  void sign(const std::string& blob, std::string_view data,
            std::function<void(std::optional<std::string>)> done);

 private:
  class Conversation;
  std::shared_ptr<Conversation> conversation_;
};

}  // namespace muster

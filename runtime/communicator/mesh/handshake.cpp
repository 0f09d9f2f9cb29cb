#include "runtime/communicator/mesh/handshake.h"

#include <cstring>

#include "runtime/protocol/keyed_hash.h"

namespace muster {
namespace {

constexpr std::size_t opening_bytes = 8 + nonce_bytes;

// In an order that both sides make alike; each text with its length, so that no two lists look the
// same.
std::string joined(std::initializer_list<std::string_view> texts) {
  std::string all;
  for (const std::string_view text : texts) {
    const auto length = static_cast<std::uint32_t>(text.size());
    all.append(reinterpret_cast<const char*>(&length), sizeof length);
    all += text;
  }
  return all;
}

}  // namespace

Handshake::Handshake(Side side, std::string secret, std::string place, std::string own_nonce)
    : side_(side),
      secret_(std::move(secret)),
      place_(std::move(place)),
      own_nonce_(std::move(own_nonce)) {}

std::string Handshake::opening() const {
  const std::uint16_t none = 0;
  std::string bytes(reinterpret_cast<const char*>(&wire_magic), sizeof wire_magic);
  bytes.append(reinterpret_cast<const char*>(&wire_version), sizeof wire_version);
  bytes.append(reinterpret_cast<const char*>(&none), sizeof none);
  return bytes + own_nonce_;
}

std::size_t Handshake::wanted_bytes() const {
  return other_nonce_.empty() ? opening_bytes : keyed_hash_bytes;
}

std::string Handshake::keyed(std::string_view purpose) const {
  const bool calls = side_ == Side::caller;
  return keyed_hash(secret_, joined({purpose, place_, calls ? own_nonce_ : other_nonce_,
                                     calls ? other_nonce_ : own_nonce_}));
}

std::variant<std::monostate, MessageKeys, WireFault> Handshake::hear_opening(std::string_view bytes,
                                                                             std::string& answer) {
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  std::memcpy(&version, bytes.data() + sizeof magic, sizeof version);
  if (magic != wire_magic) return WireFault{not_of_the_attempt};
  if (version != wire_version) {
    return WireFault{"it speaks version " + std::to_string(version) + ", not " +
                     std::to_string(wire_version) + ": install one muster-train on all nodes"};
  }
  other_nonce_ = bytes.substr(opening_bytes - nonce_bytes);
  answer = side_ == Side::caller ? keyed("caller") : opening();
  return std::monostate();
}

std::variant<std::monostate, MessageKeys, WireFault> Handshake::hear(std::string_view bytes,
                                                                     std::string& answer) {
  if (bytes.size() != wanted_bytes()) return WireFault{not_of_the_attempt};
  if (other_nonce_.empty()) return hear_opening(bytes, answer);
  const bool calls = side_ == Side::caller;
  if (!equal_secrets(bytes, keyed(calls ? "opener" : "caller"))) {
    return WireFault{not_of_the_attempt};
  }
  if (!calls) answer = keyed("opener");
  const MessageKeys keys{keyed("messages of the caller"), keyed("messages of the opener")};
  return calls ? keys : MessageKeys{keys.receiving, keys.sending};
}

}  // namespace muster

// How both ends of a connection prove that they have the secret of their attempt, before either
// believes a word of the other. Who has not hears a nonce and nothing else.
//
//   caller   opening: magic, version, 0, nonce             40 bytes
//   opener   its own                                       40
//   caller   HMAC(secret, "caller", place, both nonces)    32
//   opener   HMAC(secret, "opener", place, both nonces)    32
//
// The place is the port, or the name of the unix socket, that the caller called and the opener
// opened: who opens another one and passes everything on to the right one proves nothing. The keys
// of the messages that follow come from the same texts. Without a secret the steps are the same,
// and prove nothing. Pure: nonces are inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/communicator/mesh/wire.h"

namespace muster {

// Of the messages of one connection, by direction.
struct MessageKeys {
  std::string sending;
  std::string receiving;
};

inline constexpr std::size_t nonce_bytes = 32;

// The one thing that is said of whoever does not prove itself.
inline constexpr const char* not_of_the_attempt =
    "what is there is not of this attempt, or takes this process for a stranger: two runs use one "
    "port, or one of them is left from another attempt (MUSTER_RENDEZVOUS_SECRET differs)";

class Handshake {
 public:
  enum class Side { caller, opener };
  Handshake(Side side, std::string secret, std::string place, std::string own_nonce);

  // What a caller says first.
  std::string opening() const;

  // Bytes that the other end says next; it is given exactly so many.
  std::size_t wanted_bytes() const;
  // `answer` is to be sent. More is wanted, or the other end has proven itself, or never will.
  std::variant<std::monostate, MessageKeys, WireFault> hear(std::string_view bytes,
                                                            std::string& answer);

 private:
  std::string keyed(std::string_view purpose) const;
  std::variant<std::monostate, MessageKeys, WireFault> hear_opening(std::string_view bytes,
                                                                    std::string& answer);

  Side side_;
  std::string secret_;
  std::string place_;
  std::string own_nonce_;
  std::string other_nonce_;  // empty: not heard yet
};

}  // namespace muster

// How ranks that were started without mpirun find each other.
//
//   every rank   opens its own door: a TCP port, and a unix socket for ranks of its node
//   rank 0       listens at MASTER_ADDR:MASTER_PORT until all others have said hello
//   the others   connect there, in any order, again and again until rank 0 is up or time is over
//   rank 0       sends all of them the table of doors, and stops listening
//
// Both sides first prove that they have the secret of their attempt. Where a stranger holds the
// port, rank 0 takes another one that follows from the secret, and is looked for there. Of those
// who have proven themselves, a rank of another job, epoch or world is refused with a sentence.
// When one that has said hello leaves again, or some never come, all that are there are told so.
// Collective.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/communicator/mesh/socket.h"
#include "runtime/communicator/mesh/wire.h"
#include "runtime/protocol/start_error.h"

namespace muster {

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

std::string random_bytes(std::size_t count);

// The caller's side. Nothing, and `why`, when the other end does not prove itself or goes away.
// Throws SocketError when `patience` is over otherwise than by its deadline.
std::optional<MessageStream> introduce(Descriptor socket, const std::string& secret,
                                       const std::string& place, const Patience& patience,
                                       std::string& why);

// The opener's side: who has come and has not proven itself. None is waited for; each costs a
// descriptor and a few bytes for some seconds. Where they become too many the oldest one goes of
// the address that most came from, so that who floods from one host displaces himself. On a unix
// socket only processes of the same user are heard at all.
class Strangers {
 public:
  // A process on a busy machine may take seconds between two words.
  static constexpr std::chrono::milliseconds usual_limit{20'000};
  static constexpr std::size_t spare_places = 64;

  // `welcome`: so many of the attempt may come at the same time.
  Strangers(std::string secret, std::size_t welcome, std::chrono::milliseconds limit = usual_limit);

  void watch(std::vector<pollfd>& watched) const {
    for (const Stranger& one : strangers_) watched.push_back({one.socket.get(), POLLIN, 0});
    for (const auto& stream : silent_) watched.push_back({stream.socket().get(), POLLIN, 0});
  }
  // `place`: as in a handshake.
  void let_in(const Descriptor& listener, const std::string& place);
  // Hears all; those who have proven themselves.
  std::vector<MessageStream> take_proven();

  // Hears those, too; who has said a first message. Who has said anything else goes away.
  struct Newcomer {
    WireMessage said;
    MessageStream stream;
  };
  std::vector<Newcomer> take_first_words();
  std::size_t count() const { return strangers_.size(); }

 private:
  struct Stranger {
    Descriptor socket;
    std::string address;
    Handshake handshake;
    Deadline deadline;
    std::string heard;
  };

  void drop_one();
  bool is_still_unknown(Stranger& stranger, std::vector<MessageStream>& proven) const;

  std::string secret_;
  std::size_t most_;
  std::chrono::milliseconds limit_;
  std::list<Stranger> strangers_;    // the oldest first
  std::list<MessageStream> silent_;  // of the attempt, and have not said who they are
};

struct MeetingPlace {
  std::string host;  // of rank 0
  std::uint16_t port = 0;
  std::chrono::milliseconds limit{0};  // for all to come; 0: none
  std::function<bool()> is_over = {};  // whether nobody need meet here any more
  std::string secret = {};  // of the attempt; empty: whoever reaches the port is believed
};

// Where rank 0 is to be found: at its port, or, where it has a secret and a stranger has its port,
// at the first of a few others that is free.
std::vector<std::uint16_t> meeting_ports(const MeetingPlace& place);

// A start that failed because somebody was missing; another one may go well. Others are StartErrors
// of no such hope.
struct MeetingFailed : StartError {
  using StartError::StartError;
};

// A rank's own door, open from before it is announced.
struct OwnListener {
  Descriptor tcp;
  Descriptor unix_socket;
  RankListener door;  // without an address
};
OwnListener open_listener(int family);

struct PeerSet {
  std::string secret;
  OwnListener own;
  MeshTable table;
  std::string rank_0_address;  // as this rank reached it; empty on rank 0
};
PeerSet meet(const MeshSeat& seat, const MeetingPlace& place, const Patience& patience);

}  // namespace muster

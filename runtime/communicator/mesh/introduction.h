// Connections whose other end has proven that it is of the same attempt (handshake.h), and the
// patience with those that have not.
#pragma once

#include <list>
#include <optional>
#include <string>
#include <vector>

#include "runtime/communicator/mesh/handshake.h"
#include "runtime/communicator/mesh/socket.h"

namespace muster {

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

  void watch(std::vector<pollfd>& watched) const;
  // `place`: as in handshake.h.
  void let_in(const Descriptor& listener, const std::string& place);
  // Hears all; those who have proven themselves.
  std::vector<MessageStream> take_proven();

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
  std::list<Stranger> strangers_;  // the oldest first
};

}  // namespace muster

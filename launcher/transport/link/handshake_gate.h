// How many hosts are being logged in to at once. A cold start of a large cluster is a burst: this
// keeps it below what one thread can serve in time and below what sshd answers (its MaxStartups
// drops connections from the eleventh unauthenticated one on). One thread; grants come from the
// io_context.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "scheduler/text/clock.h"

namespace boost::asio {
class io_context;
}

namespace muster {

class HandshakeGate : public std::enable_shared_from_this<HandshakeGate> {
 public:
  explicit HandshakeGate(boost::asio::io_context& io) : io_(io) {}

  // Whoever enters brings the limits of its compute target: how many may be inside with it.
  struct Limits {
    int all = 1;
    int per_address = 1;
  };

  // Held from before the TCP connection until the login is accepted or has failed.
  using Pass = std::shared_ptr<void>;

  // `address` is host:port. First come, first served, but a full address does not hold up others.
  void enter(const std::string& address, Limits limits, std::function<void(Pass)> granted);

 private:
  struct Waiting {
    std::string address;
    Limits limits;
    std::function<void(Pass)> granted;
  };

  void leave(const std::string& address);
  bool has_room(const Waiting& each) const;
  void grant();

  boost::asio::io_context& io_;
  int inside_ = 0;
  std::map<std::string, int> inside_per_address_;
  std::deque<Waiting> waiting_;
};

// How long to wait before a connection that sshd dropped is tried again. Pure but for its dice.

// Doubles from 0.1 s to 3 s with each drop (from 1), and half of it is random: hosts that were
// turned away together must not come back together.
Milliseconds pause_after_drops(int drops, std::mt19937_64& dice);

}  // namespace muster

// The limits when many hosts start at once: how many are logged in to, and who may copy the binary.
// One thread; both grant from the io_context.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "scheduler/model/result.h"
#include "scheduler/text/clock.h"

namespace boost::asio {
class io_context;
}

namespace muster {

// How many hosts are being logged in to at once. A cold start of a large cluster is a burst: this
// keeps it below what one thread can serve in time and below what sshd answers (its MaxStartups
// drops connections from the eleventh unauthenticated one on).
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

// The file's bytes, shared by all who are sending it now.
using Binary = std::shared_ptr<const std::string>;

// Who may copy the binary to a node now. Nodes often share one home directory, so the first copy
// goes alone and the others look again before they send; with private homes the rest then goes in
// parallel; so it does when the first copy fails.
class PushGate : public std::enable_shared_from_this<PushGate> {
 public:
  explicit PushGate(boost::asio::io_context& io) : io_(io) {}

  using Pass = std::shared_ptr<void>;  // held while the file is copied to a node

  // `look_again`: others have copied meanwhile, the node may have it through a shared directory.
  using Granted = std::function<void(Pass, bool look_again)>;
  void enter(const std::string& build, Granted granted);
  // The file is in place on the node of somebody with a pass.
  void succeeded(const std::string& build) { builds_[build].copied_once = true; }

  Result<Binary> read(const std::string& path);

 private:
  struct Build {
    int inside = 0;
    bool copied_once = false;
    bool failed_once = false;  // one sick node must not hold up the others one by one
    std::deque<Granted> waiting;
  };

  static int limit(const Build& build);
  void leave(const std::string& build);
  void grant(const std::string& build, Granted granted, bool look_again);

  boost::asio::io_context& io_;
  std::map<std::string, Build> builds_;
  std::map<std::string, std::weak_ptr<const std::string>> files_;
};

}  // namespace muster

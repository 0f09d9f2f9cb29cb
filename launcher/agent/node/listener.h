// The agent's socket: takes connections of its own user and hears the first frame of each, which
// says who it is. Owned by Agent, on its thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <functional>
#include <memory>
#include <set>

#include "launcher/agent/node/peer.h"
#include "launcher/os/fd.h"

namespace muster {

class Listener {
 public:
  using OnFirst = std::function<void(const std::shared_ptr<PeerConnection>&, Frame)>;

  Listener(boost::asio::io_context& io, OnFirst on_first);
  ~Listener();
  Listener(const Listener&) = delete;

  void open(Fd socket);
  void poll();  // tries again where it could not accept
  void close();

 private:
  void accept_next();

  boost::asio::local::stream_protocol::acceptor acceptor_;
  OnFirst on_first_;
  std::set<std::shared_ptr<PeerConnection>> strangers_;
  bool is_accepting_ = false;
};

}  // namespace muster

#include "launcher/agent/node/listener.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace muster {

Listener::Listener(boost::asio::io_context& io, OnFirst on_first)
    : acceptor_(io), on_first_(std::move(on_first)) {}

// Their handlers hold themselves.
Listener::~Listener() {
  for (const auto& peer : strangers_) peer->close();
}

void Listener::open(Fd socket) {
  acceptor_.assign(boost::asio::local::stream_protocol(), socket.release());
  accept_next();
}

void Listener::poll() {
  if (!is_accepting_ && acceptor_.is_open()) accept_next();
}

void Listener::close() {
  boost::system::error_code ignored;
  acceptor_.close(ignored);
}

void Listener::accept_next() {
  is_accepting_ = true;
  using Socket = boost::asio::local::stream_protocol::socket;
  acceptor_.async_accept([this](const boost::system::error_code& error, Socket socket) {
    is_accepting_ = false;
    // No descriptor is left, say: the next try is the next tick's, or this would turn in a circle.
    if (error || !acceptor_.is_open()) return;
    ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);  // no rank can speak to the controller
    auto peer = std::make_shared<PeerConnection>(std::move(socket));
    if (peer->is_of_user(::geteuid())) {
      strangers_.insert(peer);
      const auto on_frame = [this, peer](Frame frame) {
        strangers_.erase(peer);
        on_first_(peer, std::move(frame));
      };
      peer->start({on_frame, {}, [this, peer] { strangers_.erase(peer); }});
    }
    accept_next();
  });
}

}  // namespace muster

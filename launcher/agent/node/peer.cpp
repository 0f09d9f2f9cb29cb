#include "launcher/agent/node/peer.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "launcher/wire/message_codec.h"

namespace muster {

namespace {

// The kernel takes up to 1024 pieces in one call; small answers go out together.
constexpr std::size_t pieces_per_write = 64;

}  // namespace

void PeerConnection::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  read_more();
}

bool PeerConnection::is_of_this_host() {
  const auto peer = peer_of(socket_.native_handle());
  const auto place_of = [](const std::string& process) {
    struct stat facts {};
    return ::stat(("/proc/" + process + "/ns/pid").c_str(), &facts) == 0 ? facts.st_ino : 0;
  };
  const auto place = peer ? place_of(std::to_string(peer->pid)) : 0;
  return place != 0 && place == place_of("self");
}

void PeerConnection::read_more() {
  socket_.async_read_some(
      boost::asio::buffer(input_),
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t count) {
        if (error) return self->fail();
        self->reader_.feed(std::as_bytes(std::span(self->input_.data(), count)));
        self->take_frames();
        if (self->socket_.is_open()) self->read_more();
      });
}

void PeerConnection::take_frames() {
  while (socket_.is_open() && !closing_) {
    auto frame = reader_.next();
    if (!frame) return fail();
    if (!*frame) return;
    const auto on_frame = handlers_.on_frame;  // a handler may put others in its place
    if (on_frame) on_frame(std::move(**frame));
  }
}

void PeerConnection::write(std::string bytes) {
  if (!socket_.is_open()) return;
  queued_bytes_ += bytes.size();
  queue_.push_back(std::move(bytes));
  if (writing_ == 0) write_more();
}

void PeerConnection::write_more() {
  std::vector<boost::asio::const_buffer> pieces;
  for (const std::string& bytes : queue_) {
    if (pieces.size() == pieces_per_write) break;
    pieces.push_back(boost::asio::buffer(bytes));
  }
  writing_ = pieces.size();
  boost::asio::async_write(
      socket_, pieces,
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t count) {
        if (error) return self->fail();
        self->queued_bytes_ -= count;
        self->queue_.erase(self->queue_.begin(),
                           self->queue_.begin() + static_cast<std::ptrdiff_t>(self->writing_));
        self->writing_ = 0;
        if (!self->queue_.empty()) return self->write_more();
        if (self->closing_) return self->close();
        const auto on_drained = self->handlers_.on_drained;
        if (on_drained) on_drained();
      });
}

void PeerConnection::close_when_written() {
  closing_ = true;
  if (queue_.empty()) close();
}

void PeerConnection::close() {
  handlers_ = {};
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void PeerConnection::fail() {
  const auto on_closed = std::move(handlers_.on_closed);
  close();
  if (on_closed) on_closed();
}

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

void ControllerLine::send(const FromAgent& message, std::string_view payload) {
  if (connection_) connection_->write(encode(message, payload));
}

}  // namespace muster

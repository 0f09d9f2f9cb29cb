// The agent's connections, on its thread: its socket, who connects there, and which of them is its
// controller.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "launcher/os/fd.h"
#include "launcher/wire/agent_message.h"
#include "launcher/wire/frame.h"

namespace muster {

// Whole frames in, bytes out in order, closed at the first error. Lives as long as a handler or an
// owner holds it. Never interprets a frame.
class PeerConnection : public std::enable_shared_from_this<PeerConnection> {
 public:
  struct Handlers {
    std::function<void(Frame)> on_frame;
    std::function<void()> on_drained;  // what was queued has been written
    std::function<void()> on_closed;   // once, unless `close` was called
  };

  explicit PeerConnection(boost::asio::local::stream_protocol::socket socket)
      : socket_(std::move(socket)) {}

  void start(Handlers handlers);
  void set_handlers(Handlers handlers) { handlers_ = std::move(handlers); }
  void write(std::string bytes);
  std::size_t queued_bytes() const { return queued_bytes_; }
  void close();
  void close_when_written();
  bool is_of_user(uid_t uid) { return is_peer_of(socket_.native_handle(), uid); }
  // In no process namespace but our own: what is in a container may be a stranger's program.
  bool is_of_this_host();

 private:
  void read_more();
  void take_frames();
  void write_more();
  void fail();

  boost::asio::local::stream_protocol::socket socket_;
  Handlers handlers_;
  FrameReader reader_;
  std::array<char, 256 * 1024> input_;
  std::deque<std::string> queue_;
  std::size_t writing_ = 0;  // how many strings of the queue are being written
  std::size_t queued_bytes_ = 0;
  bool closing_ = false;
};

// The socket: takes connections of its own user and hears the first frame of each, which says who
// it is.
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

// The way to the controller: whatever connection is the present one, or none. A message that finds
// no connection is dropped; everything that matters is said again after the next Welcome.
class ControllerLine {
 public:
  // Above this many unwritten bytes nothing large is added, so that a Pong or an exit waits for no
  // more than four chunks of output.
  static constexpr std::size_t queue_limit_bytes = 4u << 20;

  bool is_open() const { return connection_ != nullptr; }
  bool has_room() const { return connection_ && connection_->queued_bytes() < queue_limit_bytes; }
  void send(const FromAgent& message, std::string_view payload = {});
  void send_encoded(std::string frame) {
    if (connection_) connection_->write(std::move(frame));
  }
  void attach(std::shared_ptr<PeerConnection> connection) {
    connection_ = std::move(connection);
    ++generation_;
  }
  std::shared_ptr<PeerConnection> detach() { return std::move(connection_); }
  // Tells one connection from the next: an answer that took a while may belong to an earlier one.
  std::uint64_t generation() const { return generation_; }

 private:
  std::shared_ptr<PeerConnection> connection_;
  std::uint64_t generation_ = 0;
};

}  // namespace muster

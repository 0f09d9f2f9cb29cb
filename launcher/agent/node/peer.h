// One connection on the agent's socket: whole frames in, bytes out in order, closed at the first
// error. Lives as long as a handler or an owner holds it; on the agent's thread. Never interprets a
// frame.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/wire/frame.h"

namespace muster {

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
  bool is_of_user(unsigned uid);

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

}  // namespace muster

// Bytes both ways over one connected Unix socket: an agent's socket, or the pipe to a child. Reads
// as they come, writes from a queue. One thread; callbacks come from the io_context.
#pragma once

#include <boost/asio/local/stream_protocol.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace muster {

class ByteStream : public std::enable_shared_from_this<ByteStream> {
 public:
  struct Handlers {
    std::function<void(std::span<const std::byte>)> on_bytes;
    std::function<void()> on_drained;
    std::function<void(std::string reason)> on_end;  // once; empty: the other side closed it
  };

  explicit ByteStream(boost::asio::local::stream_protocol::socket socket);

  void start(Handlers handlers);
  void write(std::string bytes);
  void finish_writing();  // after what is queued
  void pause(bool is_paused);  // while paused nothing more is read
  void close();                // nothing is called any more
  std::size_t queued_bytes() const { return queued_bytes_; }

 private:
  void read();
  void send();
  void sent(std::size_t bytes);
  void end(const std::string& reason);

  boost::asio::local::stream_protocol::socket socket_;
  std::shared_ptr<Handlers> handlers_;  // shared: a handler may close the stream that calls it
  std::vector<std::byte> buffer_;
  std::deque<std::string> queue_;
  std::size_t queued_bytes_ = 0;
  bool reading_ = false;
  bool paused_ = false;
  bool sending_ = false;
  bool finishing_ = false;
};

}  // namespace muster

#include "launcher/relay/frame_pipe.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/write.hpp>

namespace muster {

FramePipe::FramePipe(boost::asio::io_context& io, int in, int out) : in_(io, in), out_(io, out) {
  in_.non_blocking(true);
  out_.non_blocking(true);
}

void FramePipe::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  read();
}

void FramePipe::read() {
  in_.async_read_some(boost::asio::buffer(input_), [this](const boost::system::error_code& error,
                                                          std::size_t size) {
    if (error) {
      return end(error == boost::asio::error::eof ? "its controller disconnected"
                                                  : error.message());
    }
    reader_.feed(std::as_bytes(std::span(input_.data(), size)));
    take_frames();
    if (!is_over_) read();
  });
}

void FramePipe::take_frames() {
  while (!is_over_) {
    auto frame = reader_.next();
    if (!frame) return end(frame.error().message);
    if (!*frame) return;
    handlers_.on_frame(std::move(**frame));
  }
}

void FramePipe::write(std::string bytes) {
  queue_ += bytes;
  if (sending_.empty()) send();
}

void FramePipe::send() {
  if (queue_.empty() || is_over_) return;
  sending_.swap(queue_);
  boost::asio::async_write(out_, boost::asio::buffer(sending_),
                           [this](const boost::system::error_code& error, std::size_t) {
                             if (error) return end("its controller does not listen");
                             sending_.clear();
                             send();
                           });
}

void FramePipe::end(const std::string& why) {
  if (std::exchange(is_over_, true)) return;
  handlers_.on_end(why);
}

}  // namespace muster

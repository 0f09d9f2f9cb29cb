#include "launcher/transport/link/byte_stream.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/write.hpp>

namespace muster {
namespace {

constexpr std::size_t read_bytes = 64 * 1024;  // the default capacity of a pipe

}  // namespace

ByteStream::ByteStream(boost::asio::local::stream_protocol::socket socket)
    : socket_(std::move(socket)), buffer_(read_bytes) {}

void ByteStream::start(Handlers handlers) {
  handlers_ = std::make_shared<Handlers>(std::move(handlers));
  read();
}

void ByteStream::pause(bool is_paused) {
  paused_ = is_paused;
  read();
}

void ByteStream::read() {
  if (paused_ || reading_ || !handlers_) return;
  reading_ = true;
  socket_.async_read_some(
      boost::asio::buffer(buffer_),
      [self = shared_from_this()](boost::system::error_code error, std::size_t size) {
        self->reading_ = false;
        const auto handlers = self->handlers_;
        if (!handlers) return;
        if (error) return self->end(error == boost::asio::error::eof ? "" : error.message());
        handlers->on_bytes({self->buffer_.data(), size});
        self->read();
      });
}

void ByteStream::write(std::string bytes) {
  if (bytes.empty() || finishing_) return;
  queued_bytes_ += bytes.size();
  queue_.push_back(std::move(bytes));
  send();
}

void ByteStream::finish_writing() {
  finishing_ = true;
  send();
}

void ByteStream::send() {
  if (sending_ || !socket_.is_open()) return;
  if (queue_.empty()) {
    boost::system::error_code ignored;  // the reader tells
    if (finishing_) socket_.shutdown(boost::asio::socket_base::shutdown_send, ignored);
    return;
  }
  sending_ = true;
  boost::asio::async_write(
      socket_, boost::asio::buffer(queue_.front()),
      [self = shared_from_this()](boost::system::error_code error, std::size_t size) {
        self->sending_ = false;
        if (!error) self->sent(size);
      });
}

void ByteStream::sent(std::size_t bytes) {
  queued_bytes_ -= bytes;
  queue_.pop_front();
  send();
  const auto handlers = handlers_;
  if (queue_.empty() && !finishing_ && handlers && handlers->on_drained) handlers->on_drained();
}

void ByteStream::end(const std::string& reason) {
  const auto handlers = handlers_;
  close();
  handlers->on_end(reason);
}

void ByteStream::close() {
  handlers_ = nullptr;
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace muster

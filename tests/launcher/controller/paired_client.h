// A client of the controller without its socket: the test holds the other end of the session.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <memory>
#include <vector>

#include "launcher/controller/clients/server.h"
#include "launcher/wire/message_codec.h"
#include "tests/catch.h"

namespace muster {

class PairedClient {
 public:
  explicit PairedClient(
      boost::asio::io_context& io,
      Session::Closed on_closed = [](const std::shared_ptr<Session>&) {})
      : io_(io) {
    boost::asio::local::stream_protocol::socket server(io);
    boost::asio::local::connect_pair(socket_, server);
    socket_.non_blocking(true);
    session = std::make_shared<Session>(
        std::move(server), [](const std::shared_ptr<Session>&, ToController, std::string) {},
        std::move(on_closed));
    session->start();
  }
  void close() { socket_.close(); }
  // The controller has closed, and everything before that was read.
  bool is_over() const { return is_over_; }
  // What has come since the last call.
  std::vector<Received<FromController>> messages() {
    io_.poll();
    std::vector<Received<FromController>> all;
    std::array<std::byte, 65536> buffer;
    boost::system::error_code error;
    while (const std::size_t count = socket_.read_some(boost::asio::buffer(buffer), error)) {
      reader_.feed(std::span(buffer).first(count));
      io_.poll();
    }
    is_over_ = error == boost::asio::error::eof;
    for (auto frame = reader_.next(); frame && *frame; frame = reader_.next()) {
      auto received = decode<FromController>(std::move(**frame));
      REQUIRE(received);
      all.push_back(std::move(*received));
    }
    return all;
  }
  // The same, of one kind.
  template <class Message>
  std::vector<Message> take() {
    std::vector<Message> all;
    for (const auto& each : messages()) {
      if (const auto* message = std::get_if<Message>(&each.message)) all.push_back(*message);
    }
    return all;
  }

  std::shared_ptr<Session> session;

 private:
  boost::asio::io_context& io_;
  boost::asio::local::stream_protocol::socket socket_{io_};
  FrameReader reader_;
  bool is_over_ = false;
};

}  // namespace muster

// What is told over a line, without an agent: the controller at its other end is in this process.
#pragma once

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "launcher/agent/node/peer.h"
#include "tests/catch.h"
#include "tests/launcher/agent/test_node.h"

namespace muster {

class HeardLine {
 public:
  HeardLine() { connect(); }
  ~HeardLine() {
    if (const auto connection = line.detach()) connection->close();
  }
  HeardLine(const HeardLine&) = delete;

  void connect() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    if (const auto older = line.detach()) older->close();
    using Local = boost::asio::local::stream_protocol;
    line.attach(std::make_shared<PeerConnection>(Local::socket(io, Local(), ends[0])));
    controller.emplace(Fd(ends[1]));
  }
  bool turn_until(const std::function<bool()>& holds,
                  std::chrono::milliseconds limit = std::chrono::seconds{10}) {
    return eventually(
        [&] {
          io.restart();
          io.poll();
          controller->take(std::chrono::milliseconds{0});
          return holds();
        },
        limit);
  }
  template <class T>
  std::optional<T> await() {
    std::optional<T> found;
    turn_until([&] {
      found = controller->await<T>(std::chrono::milliseconds{0});
      return found.has_value();
    });
    return found;
  }
  template <class T>
  T expect() {
    return await<T>().value();  // throws, which fails the test
  }
  // It has not come, and nothing that is ready brings it.
  template <class T>
  bool is_silent_about() {
    for (int i = 0; i < 20; ++i) turn_until([] { return true; });
    return !controller->await<T>(std::chrono::milliseconds{0});
  }

  boost::asio::io_context io;
  ControllerLine line;
  std::optional<AgentClient> controller;
};

}  // namespace muster

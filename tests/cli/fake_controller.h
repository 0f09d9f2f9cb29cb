// A controller that is only a socket: answers each connection with what the test scripted, and at
// most so many of them.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <span>
#include <thread>

#include "cli/client/start.h"
#include "launcher/controller/supervisor.h"
#include "launcher/os/read_file.h"
#include "launcher/wire/message_codec.h"

namespace muster {

class FakeController {
 public:
  // Bytes to send back for a request; the connection closes after them.
  using Answer = std::function<std::string(const ToController&)>;

  static constexpr int any_number = 1'000'000;

  FakeController(const Home& home, int connections, Answer answer)
      : answer_(std::move(answer)),
        supervisor_(std::move(**take_lock_file(supervisor_lock(home)))) {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, home.socket().c_str(), sizeof(address.sun_path) - 1);
    check(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0, "bind");
    check(::listen(listener_, 8) == 0, "listen");
    thread_ = std::thread([this, connections] {
      for (int i = 0; i < connections; ++i) {
        const int fd = ::accept(listener_, nullptr, nullptr);
        if (fd < 0) break;
        serve(fd);
      }
    });
  }
  ~FakeController() {
    ::shutdown(listener_, SHUT_RDWR);  // nobody comes any more
    thread_.join();
    ::close(listener_);
  }

 private:
  void serve(int fd) {
    FrameReader reader;
    std::array<std::byte, 4096> buffer;
    while (true) {
      auto frame = reader.next();
      if (frame && *frame) {
        const auto request = decode<ToController>(std::move(**frame));
        const std::string bytes = request ? answer_(request->message) : "";
        check(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0, "send");
        break;
      }
      const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
      if (got <= 0) break;
      reader.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
    }
    ::close(fd);
  }

  Answer answer_;
  Fd supervisor_;  // nobody starts another for this one
  int listener_ = -1;
  std::thread thread_;
};

// Says that it is of this build, and `answer` to anything else.
inline FakeController::Answer of_this_build(FakeController::Answer answer) {
  return [answer = std::move(answer)](const ToController& request) {
    const bool is_version = std::holds_alternative<AskVersion>(request);
    return is_version ? encode(FromController(VersionAnswer{own_build_id(), 7, 0}))
                      : answer(request);
  };
}

}  // namespace muster

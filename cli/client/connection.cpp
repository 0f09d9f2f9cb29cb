#include "cli/client/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

Milliseconds time_left(Clock::time_point deadline) {
  return std::max(Milliseconds{0}, std::chrono::ceil<Milliseconds>(deadline - Clock::now()));
}

Error lost() {
  return Error{std::string("connection to the controller lost: ") + std::strerror(errno)};
}

Status check_peer(const Fd& fd, const std::filesystem::path& path) {
  const auto user = peer_user(fd.get());
  if (!user) {
    return Error{"cannot see who listens on " + path.string() + ": " + std::strerror(errno)};
  }
  if (*user == ::geteuid() || *user == 0) return Done{};
  return Error{"the controller on " + path.string() + " runs as user " + std::to_string(*user) +
               ", not as you; set MUSTER_HOME to a directory of your own"};
}

}  // namespace

Result<std::optional<ControllerClient>> ControllerClient::connect(const Home& home) {
  const std::filesystem::path path = home.socket();
  Fd fd = connect_unix(path);
  if (!fd) {
    if (errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR) {
      return std::optional<ControllerClient>();
    }
    return Error{"cannot connect to the controller on " + path.string() + ": " +
                 std::strerror(errno)};
  }
  if (const auto peer = check_peer(fd, path); !peer) return peer.error();
  return std::optional(ControllerClient(std::move(fd)));
}

Status ControllerClient::send(const ToController& message, std::string_view payload) {
  const std::string frame = encode(message, payload);
  std::string_view rest = frame;
  while (!rest.empty()) {
    const ssize_t sent = ::send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      return lost();
    }
  }
  return Done{};
}

Result<std::optional<Received<FromController>>> ControllerClient::receive(Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  std::array<std::byte, 65536> buffer;
  while (true) {
    auto frame = reader_.next();
    if (!frame) return frame.error();
    if (*frame) {
      auto message = decode<FromController>(std::move(**frame));
      if (!message) return message.error();
      return std::optional<Received<FromController>>(std::move(*message));
    }
    pollfd wanted{fd_.get(), POLLIN, 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(time_left(deadline).count()));
    if (ready == 0 || (ready < 0 && errno == EINTR)) {
      return std::optional<Received<FromController>>();
    }
    const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return lost();
    if (got == 0) return Error{"the controller closed the connection"};
    reader_.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
  }
}

Result<FromController> ask(ControllerClient& client, const ToController& question,
                           Milliseconds timeout) {
  const auto sent = client.send(question);
  if (!sent) return sent.error();
  const auto deadline = Clock::now() + timeout;
  for (auto left = timeout; left.count() > 0; left = time_left(deadline)) {
    auto answer = client.receive(left);
    if (!answer) return answer.error();
    if (*answer) return std::move((*answer)->message);
  }
  return Error{"the controller did not answer within " + std::to_string(timeout.count() / 1000) +
               " s; see controller.log"};
}

}  // namespace muster

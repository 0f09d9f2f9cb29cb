#include "cli/client/connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace muster {

namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

std::string reason(int error) {
  return std::strerror(error);
}

// sun_path holds 108 bytes; a longer path is reached through the directory's descriptor.
Result<sockaddr_un> address_of(const std::filesystem::path& path, int& directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string name = path.string();
  if (name.size() >= sizeof(address.sun_path)) {
    directory = ::open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return Error{"cannot open " + path.parent_path().string()};
    name = "/proc/self/fd/" + std::to_string(directory) + "/" + path.filename().string();
  }
  std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
  return address;
}

Status check_peer(int fd, const std::filesystem::path& path) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return Error{"cannot see who listens on " + path.string() + ": " + reason(errno)};
  }
  if (peer.uid == ::geteuid() || peer.uid == 0) return Done{};
  return Error{"the controller on " + path.string() + " runs as user " + std::to_string(peer.uid) +
               ", not as you; set MUSTER_HOME to a directory of your own"};
}

}  // namespace

Result<std::optional<ControllerClient>> ControllerClient::connect(const Home& home) {
  const std::filesystem::path path = home.socket();
  int directory = -1;
  const auto address = address_of(path, directory);
  if (!address) return std::optional<ControllerClient>();
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Error{"cannot make a socket: " + reason(errno)};
  ControllerClient client(fd);
  const int outcome =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof(sockaddr_un));
  const int error = errno;
  if (directory >= 0) ::close(directory);
  if (outcome != 0) {
    if (error == ENOENT || error == ECONNREFUSED || error == ENOTDIR) {
      return std::optional<ControllerClient>();
    }
    return Error{"cannot connect to the controller on " + path.string() + ": " + reason(error)};
  }
  const auto peer = check_peer(fd, path);
  if (!peer) return peer.error();
  return std::optional<ControllerClient>(std::move(client));
}

ControllerClient::ControllerClient(ControllerClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), reader_(std::move(other.reader_)) {}

ControllerClient& ControllerClient::operator=(ControllerClient&& other) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = std::exchange(other.fd_, -1);
  reader_ = std::move(other.reader_);
  return *this;
}

ControllerClient::~ControllerClient() {
  if (fd_ >= 0) ::close(fd_);
}

Status ControllerClient::send(const ToController& message, std::string_view payload) {
  const std::string frame = encode(message, payload);
  std::string_view rest = frame;
  while (!rest.empty()) {
    const ssize_t sent = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      return Error{"connection to the controller lost: " + reason(errno)};
    }
  }
  return Done{};
}

Result<std::optional<Received<FromController>>> ControllerClient::receive(Milliseconds timeout) {
  const SteadyTime deadline = std::chrono::steady_clock::now() + timeout;
  std::array<std::byte, 65536> buffer;
  while (true) {
    auto frame = reader_.next();
    if (!frame) return frame.error();
    if (*frame) {
      auto message = decode_from_controller(std::move(**frame));
      if (!message) return message.error();
      return std::optional<Received<FromController>>(std::move(*message));
    }
    const auto left = std::chrono::ceil<Milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd wanted{fd_, POLLIN, 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(std::max<long long>(0, left.count())));
    if (ready == 0 || (ready < 0 && errno == EINTR)) {
      return std::optional<Received<FromController>>();
    }
    const ssize_t got = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{"connection to the controller lost: " + reason(errno)};
    if (got == 0) return Error{"the controller closed the connection"};
    reader_.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
  }
}

Result<FromController> ask(ControllerClient& client, const ToController& question,
                           Milliseconds timeout) {
  const auto sent = client.send(question);
  if (!sent) return sent.error();
  const SteadyTime deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const auto left = std::chrono::ceil<Milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) break;
    auto answer = client.receive(left);
    if (!answer) return answer.error();
    if (*answer) return std::move((*answer)->message);
  }
  return Error{"the controller did not answer within " + std::to_string(timeout.count() / 1000) +
               " s; see controller.log"};
}

}  // namespace muster

#include "launcher/os/fd.h"

#include <fcntl.h>
#include <unistd.h>

namespace muster {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    number_ = other.release();
  }
  return *this;
}

void Fd::reset() {
  if (number_ < 0) return;
  const int error = errno;  // of the call that failed while this was open
  ::close(release());
  errno = error;
}

std::optional<PipeEnds> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  return PipeEnds{Fd(ends[0]), Fd(ends[1])};
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

bool read_at(int fd, std::int64_t offset, std::size_t limit, std::string& out) {
  out.resize(limit);
  std::size_t have = 0;
  while (have < limit) {
    const ssize_t got =
        ::pread(fd, out.data() + have, limit - have, offset + static_cast<std::int64_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  out.resize(have);
  return true;
}

sockaddr_un unix_address(const Fd& directory, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "/proc/self/fd/" + std::to_string(directory.get()) + "/" + name;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

Fd connect_unix(const std::filesystem::path& path) {
  const Fd directory(::open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return {};
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = unix_address(directory, path.filename());
  const auto* where = reinterpret_cast<const sockaddr*>(&address);
  if (!socket || ::connect(socket.get(), where, sizeof address) != 0) return {};
  return socket;
}

std::optional<ucred> peer_of(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  const int failed = ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size);
  return failed != 0 ? std::nullopt : std::optional(peer);
}

std::optional<uid_t> peer_user(int socket) {
  const auto peer = peer_of(socket);
  return peer ? std::optional(peer->uid) : std::nullopt;
}

bool is_peer_of(int socket, uid_t user) {
  const auto peer = peer_of(socket);
  return peer && (peer->uid == user || peer->uid == 0);
}

}  // namespace muster

#include "launcher/os/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

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

}  // namespace muster

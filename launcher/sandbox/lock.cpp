#include "launcher/sandbox/lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>

namespace muster {

Result<Fd> take_lock(const std::filesystem::path& path) {
  Fd file(::open(path.c_str(), O_RDONLY));
  if (file.get() < 0 && errno == ENOENT) {
    file = Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, 0644));
  }
  while (file.get() >= 0 && ::flock(file.get(), LOCK_EX) != 0) {
    if (errno != EINTR) file.reset();
  }
  if (file.get() >= 0) return file;
  return Error{"cannot lock " + path.string() + ": " + std::strerror(errno)};
}

}  // namespace muster

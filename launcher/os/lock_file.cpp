#include "launcher/os/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace muster {

Result<std::optional<Fd>> take_lock_file(const std::filesystem::path& path) {
  Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return Error{"cannot write " + path.string() + ": " + std::strerror(errno)};
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return std::optional<Fd>();
  return std::optional(std::move(lock));
}

bool is_locked(const std::filesystem::path& path) {
  const Fd lock(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return lock && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0;
}

bool is_unlinked(const Fd& lock) {
  struct stat facts {};
  return ::fstat(lock.get(), &facts) == 0 && facts.st_nlink == 0;
}

}  // namespace muster

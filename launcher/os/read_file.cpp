#include "launcher/os/read_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace muster {

namespace {

constexpr std::size_t read_step_bytes = 64u << 10;

// The name in its directory is on the disk too; some file systems have no such thing.
bool sync_directory(const std::filesystem::path& path) {
  const std::string parent = path.has_parent_path() ? path.parent_path().string() : ".";
  const Fd directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return directory && (::fsync(directory.get()) == 0 || errno == EINVAL);
}

bool fill(const Fd& file, std::string_view bytes, mode_t mode, Durable durable) {
  return write_all(file.get(), bytes) && ::fchmod(file.get(), mode) == 0 &&
         (durable == Durable::in_cache || ::fsync(file.get()) == 0);
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

Error failed(const std::string& path, const std::string& why, int error) {
  errno = error;
  return Error{"cannot read " + path + ": " + why};
}

}  // namespace

bool replace_file(const std::filesystem::path& path, std::string_view bytes, mode_t mode,
                  Durable durable) {
  std::string fresh = path.string() + ".new-XXXXXX";
  const Fd file(::mkostemp(fresh.data(), O_CLOEXEC));
  if (!file) return false;
  if (!fill(file, bytes, mode, durable) || ::rename(fresh.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(fresh.c_str());
    errno = error;
    return false;
  }
  return durable == Durable::in_cache || sync_directory(path);
}

bool read_whole(int fd, std::string& out) {
  out.clear();
  std::array<char, read_step_bytes> step;  // a small file takes a small part of it
  while (true) {
    const ssize_t got = ::pread(fd, step.data(), step.size(), static_cast<off_t>(out.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    out.append(step.data(), static_cast<std::size_t>(got));
  }
}

std::string text_of_file(const std::filesystem::path& path) {
  const auto file = open_regular_file(path.string());
  return file ? content_of(*file) : "";
}

std::string content_of(const Fd& file) {
  std::string text;
  if (!read_whole(file.get(), text)) text.clear();
  return text;
}

Fd memory_file(std::string_view text) {
  Fd file(::memfd_create("muster", MFD_CLOEXEC));
  const bool is_whole =
      file && write_all(file.get(), text) && ::lseek(file.get(), 0, SEEK_SET) == 0;
  return is_whole ? std::move(file) : Fd();
}

Result<Fd> open_regular_file(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat facts {};
  const bool is_socket = !file && errno == ENXIO && ::stat(path.c_str(), &facts) == 0;
  if (!is_socket && (!file || ::fstat(file.get(), &facts) != 0)) {
    return failed(path, std::strerror(errno), errno);
  }
  if (S_ISREG(facts.st_mode)) return file;
  const int error = S_ISDIR(facts.st_mode) ? EISDIR : EINVAL;
  return failed(path, "it is " + std::string(kind_of(facts.st_mode)) + ", not a file", error);
}

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

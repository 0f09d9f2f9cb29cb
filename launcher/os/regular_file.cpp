#include "launcher/os/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace muster {

namespace {

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

}  // namespace muster

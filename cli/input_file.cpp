#include "cli/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace muster {

namespace {

Result<std::string> read_open(int fd, const std::string& path, std::size_t limit_bytes) {
  std::string text;
  while (text.size() <= limit_bytes) {
    const std::size_t before = text.size();
    text.resize(before + 65536);
    const ssize_t got = ::read(fd, text.data() + before, 65536);
    const int error = errno;
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(0, got)));
    if (got == 0) return text;
    if (got < 0 && error != EINTR) {
      return Error{"cannot read " + path + ": " + std::strerror(error)};
    }
  }
  return Error{path + " is larger than " + std::to_string(limit_bytes / 1024) +
               " KiB, which no job file is"};
}

}  // namespace

Result<std::string> read_input(const std::string& path, std::size_t limit_bytes) {
  if (path == "-") return read_open(STDIN_FILENO, "standard input", limit_bytes);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Error{"cannot read " + path + ": " + std::strerror(errno)};
  struct stat facts {};
  if (::fstat(fd, &facts) == 0 && S_ISDIR(facts.st_mode)) {
    ::close(fd);
    return Error{"cannot read " + path + ": it is a directory; name the YAML file in it"};
  }
  auto text = read_open(fd, path, limit_bytes);
  ::close(fd);
  return text;
}

FileView real_files() {
  FileView view;
  view.kind_of = [](const std::string& path) {
    struct stat facts {};
    if (::stat(path.c_str(), &facts) != 0) return OnDisk::missing;
    return S_ISDIR(facts.st_mode) ? OnDisk::directory : OnDisk::file;
  };
  view.read = [](const std::string& path, std::size_t limit) { return read_input(path, limit); };
  return view;
}

}  // namespace muster

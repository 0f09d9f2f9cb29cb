#include "cli/terminal/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"

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

// What a shell passes for `<(command)`: a pipe that has its writer.
bool is_open_descriptor(const std::string& path) {
  return path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/") || path == "/dev/stdin";
}

}  // namespace

Result<std::string> read_input(const std::string& path, std::size_t limit_bytes) {
  if (path == "-") return read_open(STDIN_FILENO, "standard input", limit_bytes);
  if (is_open_descriptor(path)) {
    const Fd pipe(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (pipe) return read_open(pipe.get(), path, limit_bytes);
  }
  const auto file = open_regular_file(path);
  if (file) return read_open(file->get(), path, limit_bytes);
  return errno == EISDIR ? Error{file.error().message + "; name the file in it"} : file.error();
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

void write_new_file(const std::string& path, std::string_view text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file && errno == EEXIST) {
    throw VerbEnd(usage_error, path + " exists; choose another name, nothing is overwritten");
  }
  if (!file && errno == ENOENT) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    throw VerbEnd(usage_error, "cannot write " + path + ": there is no folder " + folder +
                                   "; make it first: mkdir -p " + folder);
  }
  if (file && write_all(file.get(), text)) return;
  throw VerbEnd(internal_error, "cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace muster

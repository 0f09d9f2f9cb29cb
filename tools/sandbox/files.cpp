#include "tools/sandbox/files.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"

namespace muster {

namespace {

Error failed(const std::string& attempt, const std::filesystem::path& path) {
  return Error{"cannot " + attempt + " " + path.string() + ": " + std::strerror(errno)};
}

int remove_entry(const char* path, const struct stat*, int, FTW*) {
  ::remove(path);
  return 0;
}

}  // namespace

Status write_file(const std::filesystem::path& path, const std::string& text, mode_t mode) {
  if (!replace_file(path, text, mode, Durable::in_cache)) return failed("write", path);
  return Done{};
}

Result<std::optional<std::string>> read_file_if_there(const std::filesystem::path& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<std::string>();
    return failed("read", path);
  }
  std::string text;
  if (!read_whole(file.get(), text)) return failed("read", path);
  return std::optional(std::move(text));
}

Status make_folder(const std::filesystem::path& path, mode_t mode) {
  std::error_code code;
  const bool is_new = std::filesystem::create_directories(path, code);
  if (code) return Error{"cannot make " + path.string() + ": " + code.message()};
  if (is_new && ::chmod(path.c_str(), mode) != 0) return failed("set the mode of", path);
  return Done{};
}

void remove_folder(const std::filesystem::path& path) {
  constexpr int open_folders = 64;
  ::nftw(path.c_str(), remove_entry, open_folders, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

}  // namespace muster

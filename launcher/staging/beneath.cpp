#include "launcher/staging/beneath.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "scheduler/text/text.h"

namespace muster {

std::string unsafe_path_reason(std::string_view path) {
  if (path.empty()) return "it is empty";
  if (path.front() == '/') return "it is absolute";
  if (path.find('\0') != std::string_view::npos) return "it contains a zero byte";
  for (;;) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty()) return "it has an empty component";
    if (part == "." || part == "..") return "it contains '" + std::string(part) + "'";
    if (slash == std::string_view::npos) return {};
    path.remove_prefix(slash + 1);
  }
}

std::pair<std::string_view, std::string_view> split_last_component(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {std::string_view{}, path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

std::vector<std::string> names_in(DIR* directory) {
  std::vector<std::string> names;
  for (errno = 0; const dirent* entry = ::readdir(directory); errno = 0) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Fd open_directory_beneath(const Fd& root, std::string_view path, bool create) {
  constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  Fd at(::openat(root.get(), ".", flags));
  while (at && !path.empty()) {
    const std::string part(take_until(path, '/'));
    if (create && ::mkdirat(at.get(), part.c_str(), 0755) != 0 && errno != EEXIST) {
      return Fd{};
    }
    at = Fd(::openat(at.get(), part.c_str(), flags));
  }
  return at;
}

Fd open_file_beneath(const Fd& root, std::string_view path, int flags, mode_t mode) {
  const auto [parent, name] = split_last_component(path);
  const Fd directory = open_directory_beneath(root, parent, false);
  if (!directory) return Fd{};
  const int fd =
      ::openat(directory.get(), std::string(name).c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode);
  return Fd(fd);
}

}  // namespace muster

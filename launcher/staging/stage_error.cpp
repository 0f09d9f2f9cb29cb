#include "launcher/staging/stage_error.h"

#include <sys/statvfs.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace muster {

namespace {

namespace fs = std::filesystem;

// Free bytes of the file system that holds `path` or, where that does not exist, its nearest
// parent.
std::string free_space_near(fs::path path) {
  struct statvfs space {};
  while (::statvfs(path.c_str(), &space) != 0) {
    if (!path.has_relative_path()) return "an unknown amount";
    path = path.parent_path();
  }
  return readable_bytes(static_cast<std::int64_t>(space.f_bavail * space.f_frsize));
}

std::string reason(const fs::path& path, int error_number) {
  switch (error_number) {
    case ENOSPC:
      return "the file system is full (" + free_space_near(path) +
             " free); make room and try again";
    case EDQUOT:
      return "the disk quota is used up; make room and try again";
    case EIO:
      return "the disk reported an input/output error; see the kernel log of this machine";
    default:
      return std::strerror(error_number);
  }
}

}  // namespace

Error stage_error(std::string_view attempt, const fs::path& path, int error_number) {
  return Error{"cannot " + std::string(attempt) + " '" + path.string() +
               "': " + reason(path, error_number)};
}

std::string readable_bytes(std::int64_t bytes) {
  static constexpr std::array units{"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", value, units[unit]);
  return text.data();
}

}  // namespace muster

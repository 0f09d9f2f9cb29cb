#include "health/read/probe_calls.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <system_error>

namespace muster {

namespace {

void add_line(std::string& text, std::string_view key, const std::string& value) {
  text.append(key).append(" ").append(value).append("\n");
}

template <class Number>
void add_line(std::string& text, std::string_view key, Number value) {
  add_line(text, key, std::to_string(value));
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
}

}  // namespace

FileReading failed_reading(int error_number) {
  // A process that ended while it was read is no file either.
  const bool is_missing =
      error_number == ENOENT || error_number == ENOTDIR || error_number == ESRCH;
  return {{}, std::generic_category().message(error_number), is_missing};
}

FileReading owner_reading(int directory, const std::string& path) {
  struct stat file {};
  if (::fstatat(directory, path.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0)
    return failed_reading(errno);
  FileReading reading;
  add_line(reading.text, "uid", file.st_uid);
  add_line(reading.text, "bytes", file.st_size);
  add_line(reading.text, "modified_s", file.st_mtim.tv_sec);
  return reading;
}

FileReading space_reading(int directory, const std::string& path) {
  const int fd = ::openat(directory, path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return failed_reading(errno);
  struct statvfs space {};
  const bool is_told = ::fstatvfs(fd, &space) == 0;
  const int error_number = errno;
  ::close(fd);
  if (!is_told) return failed_reading(error_number);
  FileReading reading;
  add_line(reading.text, "bytes", space.f_blocks * space.f_frsize);
  add_line(reading.text, "bytes_available", space.f_bavail * space.f_frsize);
  add_line(reading.text, "inodes", space.f_files);
  add_line(reading.text, "inodes_available", space.f_favail);
  add_line(reading.text, "read_only", (space.f_flag & ST_RDONLY) != 0 ? 1 : 0);
  return reading;
}

FileReading open_reading(int directory, const std::string& path) {
  const int fd = ::openat(directory, path.c_str(), O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return failed_reading(errno);
  ::close(fd);
  return {};
}

FileReading link_reading(int directory, const std::string& path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t size = ::readlinkat(directory, path.c_str(), target.data(), target.size());
  if (size < 0) return failed_reading(errno);
  return {std::string(target.data(), static_cast<std::size_t>(size)), {}, false};
}

FileReading limit_reading(std::string_view name) {
  struct Named {
    std::string_view name;
    decltype(RLIMIT_NOFILE) resource;
  };
  constexpr std::array known{Named{"nofile", RLIMIT_NOFILE}, Named{"memlock", RLIMIT_MEMLOCK},
                             Named{"nproc", RLIMIT_NPROC}};
  for (const Named& one : known) {
    if (one.name != name) continue;
    rlimit limit{};
    if (::getrlimit(one.resource, &limit) != 0) return failed_reading(errno);
    FileReading reading;
    add_line(reading.text, "soft", limit_text(limit.rlim_cur));
    add_line(reading.text, "hard", limit_text(limit.rlim_max));
    return reading;
  }
  return {{}, "no such limit", true};
}

FileReading clock_reading() {
  timex clock{};  // no modes: nothing is set
  if (::adjtimex(&clock) < 0) return failed_reading(errno);
  FileReading reading;
  add_line(reading.text, "status", clock.status);
  const bool is_nano = (clock.status & STA_NANO) != 0;
  add_line(reading.text, "offset_us", is_nano ? clock.offset / 1000 : clock.offset);
  add_line(reading.text, "max_error_us", clock.maxerror);
  return reading;
}

std::optional<std::string_view> probe_value(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.starts_with(key) && line.substr(key.size()).starts_with(' '))
      return line.substr(key.size() + 1);
  }
  return std::nullopt;
}

std::optional<std::int64_t> probe_number(std::string_view text, std::string_view key) {
  const auto said = probe_value(text, key);
  if (!said) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(said->data(), said->data() + said->size(), value);
  const bool is_whole = error == std::errc() && end == said->data() + said->size();
  return is_whole ? std::optional(value) : std::nullopt;
}

}  // namespace muster

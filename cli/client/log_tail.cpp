#include "cli/client/log_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace muster {

namespace {

constexpr std::int64_t tail_block_bytes = 64 * 1024;
constexpr std::int64_t text_limit_bytes = 64 * 1024;

struct OpenFile {
  explicit OpenFile(const std::filesystem::path& path)
      : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat facts {};
    if (fd >= 0 && ::fstat(fd, &facts) == 0) size = facts.st_size;
  }
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int fd;
  std::int64_t size = 0;
};

std::int64_t offset_in(const OpenFile& file, std::int64_t lines) {
  std::vector<char> block(tail_block_bytes);
  std::int64_t end = file.size;
  std::int64_t newlines = 0;
  while (end > 0) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - tail_block_bytes);
    const ssize_t got =
        ::pread(file.fd, block.data(), static_cast<std::size_t>(end - begin), begin);
    if (got != end - begin) return 0;
    for (std::int64_t i = got - 1; i >= 0; --i) {
      const bool is_last_byte = begin + i == file.size - 1;
      if (block[static_cast<std::size_t>(i)] != '\n' || is_last_byte) continue;
      if (++newlines == lines) return begin + i + 1;
    }
    end = begin;
  }
  return 0;
}

}  // namespace

std::int64_t offset_of_last_lines(const std::filesystem::path& path, std::int64_t lines) {
  const OpenFile file(path);
  if (file.fd < 0) return 0;
  return lines <= 0 ? file.size : offset_in(file, lines);
}

std::string last_lines_of_file(const std::filesystem::path& path, std::int64_t lines) {
  const OpenFile file(path);
  if (file.fd < 0 || lines <= 0) return "";
  const std::int64_t begin = std::max(offset_in(file, lines), file.size - text_limit_bytes);
  std::string text(static_cast<std::size_t>(file.size - begin), '\0');
  const ssize_t got = ::pread(file.fd, text.data(), text.size(), begin);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  return text;
}

}  // namespace muster

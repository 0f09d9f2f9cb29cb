#include "runtime/protocol/heartbeat.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>

#include "runtime/protocol/number_text.h"

namespace muster {

HeartbeatFile::HeartbeatFile(const std::string& path)
    : fd_(path.empty() ? -1 : ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)),
      failed_(!path.empty() && !fd_) {}

void HeartbeatFile::beat(std::uint64_t step) {
  if (!fd_) return;
  char text[24];
  char* end = std::to_chars(text, text + 22, step).ptr;
  *end++ = '\n';
  failed_ = ::pwrite(fd_.get(), text, static_cast<std::size_t>(end - text), 0) != end - text;
}

std::optional<std::uint64_t> parse_heartbeat(std::string_view text) {
  const std::size_t line_end = text.find('\n');
  if (line_end == std::string_view::npos) return std::nullopt;
  return read_whole_number(text.substr(0, line_end));
}

std::optional<std::uint64_t> read_heartbeat(const std::string& path) {
  std::string seen;
  return read_heartbeat(path, seen);
}

std::optional<std::uint64_t> read_heartbeat(const std::string& path, std::string& seen) {
  // O_NONBLOCK: a pipe that took its place must not hold the reader up.
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  char text[64];
  const ssize_t got = fd ? ::pread(fd.get(), text, sizeof text, 0) : 0;
  const std::string_view now(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  const bool is_unchanged = now == seen;
  seen = now;
  return is_unchanged && now.find('\n') == now.npos ? read_whole_number(now) : parse_heartbeat(now);
}

}  // namespace muster

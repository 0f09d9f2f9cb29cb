#include "launcher/os/output_tail.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

namespace muster {

namespace {

constexpr std::size_t bytes_kept = 8192;
constexpr int reads_at_once = 16;

}  // namespace

std::optional<TailPipe> tail_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return std::nullopt;
  ::fcntl(ends[1], F_SETFL, 0);
  return TailPipe{Fd(ends[0]), Fd(ends[1])};
}

void read_tail(int from, std::string& text) {
  std::array<char, 4096> buffer;
  for (int i = 0; i < reads_at_once; ++i) {
    const ssize_t got = ::read(from, buffer.data(), buffer.size());
    if (got <= 0) return;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > 2 * bytes_kept) text.erase(0, text.size() - bytes_kept);
  }
}

}  // namespace muster

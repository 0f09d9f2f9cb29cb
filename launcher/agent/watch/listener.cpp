#include "launcher/agent/watch/listener.h"

#include <array>
#include <cstdio>

#include "launcher/os/read_file.h"

namespace muster {

namespace {

constexpr std::string_view state_listens = "0A ";
// A host with very many connections has tables of megabytes: they are read less often later.
constexpr int close_looks = 60;
constexpr std::chrono::seconds close_pause{1};
constexpr std::chrono::seconds wide_pause{30};
constexpr int looks_least = 10;

}  // namespace

bool has_listener(std::string_view table, int port) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), ":%04X ", port & 0xFFFF);
  const std::string_view local = text.data();
  for (auto at = table.find(local); at != table.npos; at = table.find(local, at + 1)) {
    const std::string_view rest = table.substr(at + local.size());
    const auto space = rest.substr(0, rest.find('\n')).find(' ');
    if (space == rest.npos || rest.substr(0, space).find(':') == rest.npos) continue;
    if (rest.substr(space + 1).starts_with(state_listens)) return true;
  }
  return false;
}

void ListenWatch::poll(Clock::time_point now) {
  if (port_ == 0 || now < next_) return;
  ++looks_;
  next_ = now + (looks_ < close_looks ? close_pause : wide_pause);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    if (has_listener(text_of_file(table), port_)) port_ = 0;
  }
}

bool ListenWatch::has_missed() const {
  return port_ != 0 && looks_ >= looks_least;
}

}  // namespace muster

// Whether the ranks of an attempt ever met: somebody listens on MASTER_PORT as long as a process
// group of PyTorch lives. Owned by the attempt; asks the kernel's tables, never the port.
#pragma once

#include <chrono>
#include <string_view>

namespace muster {

// Of /proc/net/tcp or tcp6, whose lines have "LOCAL:PORT REMOTE:PORT STATE" in hexadecimal digits.
bool has_listener(std::string_view table, int port);

class ListenWatch {
 public:
  using Clock = std::chrono::steady_clock;

  void begin(int port) { port_ = port; }
  void poll(Clock::time_point now);
  // It was looked for during ten seconds or more, and nobody was there.
  bool has_missed() const;

 private:
  int port_ = 0;  // 0: it is not looked for
  int looks_ = 0;
  Clock::time_point next_{};
};

}  // namespace muster

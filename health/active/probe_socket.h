// A TCP connection on which nothing is waited for beyond a moment: connecting, sending, receiving.
// Not blocking by itself; one thread at a time. The name of a host is looked up by the system,
// which keeps its own time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "scheduler/model/result.h"

namespace muster {

using ProbeMoment = std::chrono::steady_clock::time_point;

class ProbeSocket {
 public:
  ProbeSocket() = default;
  explicit ProbeSocket(int fd) : fd_(fd) {}
  ~ProbeSocket();
  ProbeSocket(ProbeSocket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), read_ahead_(std::move(other.read_ahead_)) {}
  ProbeSocket& operator=(ProbeSocket&& other) noexcept;

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  Status send_all(std::string_view bytes, ProbeMoment until);
  // How many bytes there were, at most `most`; 0 at the end.
  Result<std::size_t> receive(char* to, std::size_t most, ProbeMoment until);
  // Without its end. An error when it is longer than `most`, or the other side ends before it.
  Result<std::string> receive_line(ProbeMoment until, std::size_t most = 256);
  // As much as fits now, of the front; 0 when nothing does before the moment.
  Result<std::size_t> send_some(std::string_view bytes, ProbeMoment until);
  void end_sending();
  void break_off();     // both ways: who waits on it, also on another thread, hears of it
  void send_at_once();  // small messages do not wait for more

 private:
  bool wait_for(short events, ProbeMoment until) const;

  int fd_ = -1;
  std::string read_ahead_;  // after the last line
};

// The wildcard address: of both families, where the system has them.
Result<ProbeSocket> listen_on(const std::string& address, std::uint16_t port);
std::uint16_t port_of(const ProbeSocket& listener);
// "eth0": whose address this end of a connection has; empty: no interface has it.
std::string interface_of(const ProbeSocket& connection);
// One that is not open when nobody came.
Result<ProbeSocket> accept_from(const ProbeSocket& listener, ProbeMoment until);
// Tries until somebody listens there: the other side may start later.
Result<ProbeSocket> connect_to(const std::string& host, std::uint16_t port, ProbeMoment until);

}  // namespace muster

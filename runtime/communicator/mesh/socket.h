// Sockets between ranks: TCP, and unix ones in the abstract namespace, which leave no file behind.
//
// All sockets are non-blocking and closed in programs that this one starts. Waiting has a deadline.
// Failures throw SocketError with the call and the address in a sentence.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/communicator/mesh/wire.h"
#include "runtime/protocol/descriptor.h"

namespace muster {

struct SocketError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A moment after which nothing is waited for; the default one never comes.
class Deadline {
 public:
  Deadline() = default;
  // 0: never.
  explicit Deadline(std::chrono::milliseconds from_now);
  bool passed() const { return at_ && std::chrono::steady_clock::now() >= *at_; }
  Deadline or_earlier(const Deadline& other) const;
  // For poll(2): milliseconds, at most `longest`.
  int poll_ms(int longest) const;

 private:
  std::optional<std::chrono::steady_clock::time_point> at_;
};

// Waits for any of the descriptors; false when the deadline came.
bool poll_until(std::vector<pollfd>& watched, const Deadline& deadline);

// How long somebody is waited for: until a deadline, or until it makes no sense any more.
class Patience {
 public:
  // `is_over` is asked now and then, when there is one.
  Patience(std::chrono::milliseconds limit, std::function<bool()> is_over)
      : deadline_(limit), is_over_(std::move(is_over)) {}

  const Deadline& deadline() const { return deadline_; }
  // The same, but no longer than `limit` from now.
  Patience at_most(std::chrono::milliseconds limit) const;
  // As poll_until. Throws SocketError once it is over.
  bool wait_for(std::vector<pollfd>& watched) const;
  void check() const {
    if (is_over_ && is_over_()) throw SocketError("timed out");
  }

 private:
  Deadline deadline_;
  std::function<bool()> is_over_;
};

// Listens on every address of the family that `host` has; port 0: any.
Descriptor listen_tcp(const std::string& host, std::uint16_t port);
Descriptor listen_tcp(int family);
std::uint16_t port_of(const Descriptor& socket);
int family_of(const Descriptor& socket);
// The address at the other end, as numbers.
std::string peer_address(const Descriptor& socket);

// One attempt; nothing when nobody listens there yet, or the host has no address yet. Throws
// SocketError once `patience` is over: a host that is gone answers nothing for minutes.
std::optional<Descriptor> try_connect_tcp(const std::string& host, std::uint16_t port,
                                          const Patience& patience, std::string& why);

Descriptor listen_unix(const std::string& name);
std::optional<Descriptor> try_connect_unix(const std::string& name);
// The process at the other end, as this process's namespace counts; 0: it is in another one.
int peer_process(const Descriptor& socket);
// Of a unix socket: whether who listens, or has connected, is this process's user.
bool is_of_same_user(const Descriptor& socket);

// Nothing when nobody is waiting to be let in.
struct Caller {
  Descriptor socket;
  std::string address;  // as numbers; empty on a unix socket
};
std::optional<Caller> accept_one(const Descriptor& listener);

// Sends all of it; `passed` travels with the first byte. False when the other end is gone.
bool send_all(const Descriptor& socket, std::string_view bytes, const Deadline& deadline,
              const Descriptor* passed = nullptr);

// What arrives on one socket after the handshake, cut into messages.
class MessageStream {
 public:
  MessageStream(Descriptor socket, const MessageKeys& keys)
      : socket_(std::move(socket)), sending_(keys.sending), receiving_(keys.receiving) {}

  // Takes what is there, without waiting. False: the other end is gone, after what it said.
  bool fill();
  // The next message, if it is here.
  std::variant<std::monostate, WireMessage, WireFault> next() {
    return take_message(bytes_, receiving_);
  }
  bool send(const WireMessage& message, const Deadline& deadline,
            const Descriptor* passed = nullptr);

  const Descriptor& socket() const { return socket_; }
  Descriptor release() { return std::move(socket_); }
  // What came after the last message.
  const std::string& rest() const { return bytes_; }
  // A descriptor that came with a message.
  Descriptor take_passed() { return std::move(passed_); }

 private:
  Descriptor socket_;
  Descriptor passed_;
  Seal sending_;
  Seal receiving_;
  std::string bytes_;
};

// The next message; SocketError with `from` in its sentence when none of the wanted kind comes.
WireMessage await_message(MessageStream& stream, const std::string& from, const Patience& patience);

}  // namespace muster

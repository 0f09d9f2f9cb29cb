#include "runtime/communicator/mesh/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace muster {
namespace {

constexpr int backlog = 4096;  // every rank of a large run at once
constexpr int socket_flags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

[[noreturn]] void fail(const std::string& what) {
  throw SocketError(what + ": " + std::strerror(errno));
}

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Addresses addresses_of(const std::string& host, std::uint16_t port, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) {
    why = host + ": " + gai_strerror(code);
    found = nullptr;
  }
  return {found, [](addrinfo* list) {
            if (list != nullptr) freeaddrinfo(list);
          }};
}

Descriptor listening(int family, std::uint16_t port) {
  Descriptor socket(::socket(family, socket_flags, 0));
  if (!socket) fail("a socket cannot be made");
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage any{};
  socklen_t length = sizeof(sockaddr_in);
  any.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(any).sin6_port = htons(port);
    length = sizeof(sockaddr_in6);
  } else {
    reinterpret_cast<sockaddr_in&>(any).sin_port = htons(port);
  }
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&any), length) != 0 ||
      listen(socket.get(), backlog) != 0) {
    fail("port " + std::to_string(port) + " cannot be listened on");
  }
  return socket;
}

void send_at_once(const Descriptor& socket) {
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// 0, or the errno of a connection attempt.
int connect_within(const Descriptor& socket, const sockaddr* address, socklen_t length,
                   const Patience& patience) {
  if (connect(socket.get(), address, length) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  std::vector<pollfd> watched{{socket.get(), POLLOUT, 0}};
  if (!patience.wait_for(watched)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

struct UnixAddress {
  explicit UnixAddress(const std::string& name) {
    address.sun_family = AF_UNIX;
    const std::size_t count = std::min(name.size(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path + 1, name.data(), count);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + count);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr_un address{};
  socklen_t length = 0;
};

sockaddr_storage name_of(const Descriptor& socket, int (*ask)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  if (ask(socket.get(), reinterpret_cast<sockaddr*>(&name), &length) != 0) {
    fail("a socket has no address");
  }
  return name;
}

std::string numeric(const sockaddr_storage& name) {
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&name), sizeof name, text.data(), text.size(),
                  nullptr, 0, NI_NUMERICHOST) != 0) {
    throw SocketError("the address of a peer cannot be read");
  }
  return text.data();
}

// A message header for one buffer, with a descriptor beside it when there is one.
struct OneBuffer {
  OneBuffer(void* data, std::size_t bytes) : part{data, bytes} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = beside;
    header.msg_controllen = sizeof beside;
  }
  void pass(int fd) {
    cmsghdr* control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(control), &fd, sizeof fd);
  }
  iovec part;
  alignas(cmsghdr) char beside[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
};

ucred credentials_of(const Descriptor& socket) {
  ucred peer{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  socklen_t length = sizeof peer;
  getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length);
  return peer;
}

bool is_gone(int error) {
  return error == EPIPE || error == ECONNRESET || error == ENOTCONN || error == ETIMEDOUT;
}

}  // namespace

Deadline::Deadline(std::chrono::milliseconds from_now) {
  if (from_now.count() > 0) at_ = std::chrono::steady_clock::now() + from_now;
}

Deadline Deadline::or_earlier(const Deadline& other) const {
  if (!at_ || (other.at_ && *other.at_ < *at_)) return other;
  return *this;
}

int Deadline::poll_ms(int longest) const {
  if (!at_) return longest;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(*at_ - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, longest));
}

bool poll_until(std::vector<pollfd>& watched, const Deadline& deadline) {
  constexpr int at_least_each_ms = 1000;
  while (true) {
    const int ready = poll(watched.data(), watched.size(), deadline.poll_ms(at_least_each_ms));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) fail("poll");
    if (deadline.passed()) return false;
  }
}

Patience Patience::at_most(std::chrono::milliseconds limit) const {
  Patience shorter = *this;
  shorter.deadline_ = deadline_.or_earlier(Deadline(limit));
  return shorter;
}

bool Patience::wait_for(std::vector<pollfd>& watched) const {
  if (!is_over_) return poll_until(watched, deadline_);
  constexpr std::chrono::milliseconds look_pause(10);
  while (!poll_until(watched, Deadline(look_pause))) {
    if (deadline_.passed()) return false;
    check();
  }
  return true;
}

Descriptor listen_tcp(const std::string& host, std::uint16_t port) {
  std::string why;
  const Addresses found = addresses_of(host, port, why);
  if (!found) throw SocketError(why);
  return listening(found->ai_family, port);
}

Descriptor listen_tcp(int family) {
  return listening(family, 0);
}

std::uint16_t port_of(const Descriptor& socket) {
  const sockaddr_storage name = name_of(socket, getsockname);
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(name).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

int family_of(const Descriptor& socket) {
  return name_of(socket, getsockname).ss_family;
}

std::string peer_address(const Descriptor& socket) {
  return numeric(name_of(socket, getpeername));
}

std::optional<Descriptor> try_connect_tcp(const std::string& host, std::uint16_t port,
                                          const Patience& patience, std::string& why) {
  const Addresses found = addresses_of(host, port, why);
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    Descriptor socket(::socket(at->ai_family, socket_flags, 0));
    if (!socket) fail("a socket cannot be made");
    const int error = connect_within(socket, at->ai_addr, at->ai_addrlen, patience);
    // While nobody listens on a port of the ephemeral range, a socket may be given that very port
    // and reach itself.
    const bool is_itself = error == 0 && port_of(socket) == port;
    if (error == 0 && !is_itself) {
      send_at_once(socket);
      return socket;
    }
    why = host + ":" + std::to_string(port) + ": " + std::strerror(error);
  }
  return std::nullopt;
}

Descriptor listen_unix(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, socket_flags, 0));
  const UnixAddress address(name);
  if (!socket || bind(socket.get(), address.get(), address.length) != 0 ||
      listen(socket.get(), backlog) != 0) {
    fail("a unix socket cannot be listened on");
  }
  return socket;
}

std::optional<Descriptor> try_connect_unix(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, socket_flags, 0));
  const UnixAddress address(name);
  if (!socket || connect(socket.get(), address.get(), address.length) != 0) return std::nullopt;
  return socket;
}

int peer_process(const Descriptor& socket) {
  return credentials_of(socket).pid;
}

bool is_of_same_user(const Descriptor& socket) {
  return credentials_of(socket).uid == geteuid();
}

std::optional<Caller> accept_one(const Descriptor& listener) {
  sockaddr_storage from{};
  socklen_t length = sizeof from;
  Caller caller{Descriptor(accept4(listener.get(), reinterpret_cast<sockaddr*>(&from), &length,
                                   SOCK_CLOEXEC | SOCK_NONBLOCK)),
                std::string()};
  if (!caller.socket) return std::nullopt;
  if (from.ss_family == AF_UNIX) return caller;
  send_at_once(caller.socket);
  caller.address = numeric(from);
  return caller;
}

bool send_all(const Descriptor& socket, std::string_view bytes, const Deadline& deadline,
              const Descriptor* passed) {
  while (!bytes.empty()) {
    OneBuffer one(const_cast<char*>(bytes.data()), bytes.size());
    if (passed != nullptr) {
      one.pass(passed->get());
    } else {
      one.header.msg_control = nullptr;
      one.header.msg_controllen = 0;
    }
    const ssize_t sent = sendmsg(socket.get(), &one.header, MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      passed = nullptr;
      continue;
    }
    if (is_gone(errno)) return false;
    if (errno != EAGAIN && errno != EINTR) fail("sending to a rank");
    std::vector<pollfd> watched{{socket.get(), POLLOUT, 0}};
    if (!poll_until(watched, deadline)) return false;
  }
  return true;
}

bool MessageStream::fill() {
  while (true) {
    std::array<char, 4096> buffer;
    OneBuffer one(buffer.data(), buffer.size());
    const ssize_t got = recvmsg(socket_.get(), &one.header, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return false;
    const cmsghdr* control = CMSG_FIRSTHDR(&one.header);
    if (control != nullptr && control->cmsg_type == SCM_RIGHTS) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(control), sizeof fd);
      passed_ = Descriptor(fd);
    }
    bytes_.append(buffer.data(), static_cast<std::size_t>(got));
    if (bytes_.size() > 2 * message_limit_bytes) return false;  // a stranger that never ends
  }
}

bool MessageStream::send(const WireMessage& message, const Deadline& deadline,
                         const Descriptor* passed) {
  return send_all(socket_, format_message(message, sending_), deadline, passed);
}

WireMessage await_message(MessageStream& stream, const std::string& from,
                          const Patience& patience) {
  while (true) {
    const bool there = stream.fill();
    auto next = stream.next();
    if (auto* message = std::get_if<WireMessage>(&next)) return std::move(*message);
    if (const auto* fault = std::get_if<WireFault>(&next)) {
      throw SocketError(from + ": " + fault->reason);
    }
    if (!there) throw SocketError(from + " closed the connection");
    std::vector<pollfd> watched{{stream.socket().get(), POLLIN, 0}};
    if (!patience.wait_for(watched)) throw SocketError(from + " did not answer in time");
  }
}

}  // namespace muster

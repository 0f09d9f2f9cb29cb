#include "health/active/probe_socket.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <thread>

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

constexpr std::chrono::milliseconds between_connects{50};

Error failed(const std::string& what) {
  return Error{what + ": " + std::generic_category().message(errno)};
}

int poll_ms(ProbeMoment until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
}

void set_option(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof value);  // refused, it works as well
}

Result<Addresses> look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                 std::to_string(port).c_str(), &wanted, &found);
  Addresses addresses(found, &::freeaddrinfo);
  if (code != 0) return Error{"no address of '" + host + "': " + ::gai_strerror(code)};
  return addresses;
}

ProbeSocket new_socket(const addrinfo& address) {
  return ProbeSocket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Empty, or why not.
std::string try_listen(const ProbeSocket& socket, const addrinfo& address) {
  if (!socket.is_open()) return failed("socket").message;
  set_option(socket.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6) set_option(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) return failed("bind").message;
  if (::listen(socket.fd(), 64) != 0) return failed("listen").message;
  return {};
}

bool is_ready(int fd, short events, ProbeMoment until) {
  for (;;) {
    pollfd watched{fd, events, 0};
    const int ready = ::poll(&watched, 1, poll_ms(until));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

// Empty, or why not.
std::string try_connect(const ProbeSocket& socket, const addrinfo& address, ProbeMoment until) {
  if (!socket.is_open()) return failed("socket").message;
  if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) return {};
  if (errno != EINPROGRESS) return failed("connect").message;
  if (!is_ready(socket.fd(), POLLOUT, until)) return "connect: no answer in time";
  int error_number = 0;
  socklen_t size = sizeof error_number;
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error_number, &size);
  if (error_number == 0) return {};
  return "connect: " + std::generic_category().message(error_number);
}

// One of IPv4 as its four bytes, also where a socket of both families has it; empty: another kind.
using Ip = std::string;

Ip ip_of(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(address);
    return {reinterpret_cast<const char*>(&four->sin_addr), sizeof four->sin_addr};
  }
  if (address->sa_family != AF_INET6) return {};
  const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  const Ip bytes(reinterpret_cast<const char*>(&six), sizeof six);
  return IN6_IS_ADDR_V4MAPPED(&six) ? bytes.substr(sizeof six - sizeof(in_addr)) : bytes;
}

}  // namespace

ProbeSocket::~ProbeSocket() {
  if (fd_ >= 0) ::close(fd_);
}

ProbeSocket& ProbeSocket::operator=(ProbeSocket&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(read_ahead_, other.read_ahead_);
  return *this;
}

bool ProbeSocket::wait_for(short events, ProbeMoment until) const {
  return is_ready(fd_, events, until);
}

Result<std::size_t> ProbeSocket::send_some(std::string_view bytes, ProbeMoment until) {
  for (;;) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return failed("send");
    if (!wait_for(POLLOUT, until)) return std::size_t{0};
  }
}

Status ProbeSocket::send_all(std::string_view bytes, ProbeMoment until) {
  while (!bytes.empty()) {
    const auto sent = send_some(bytes, until);
    if (!sent) return sent.error();
    if (*sent == 0) return Error{"send: the other side takes nothing"};
    bytes.remove_prefix(*sent);
  }
  return Done{};
}

Result<std::size_t> ProbeSocket::receive(char* to, std::size_t most, ProbeMoment until) {
  if (!read_ahead_.empty()) {
    const std::size_t count = std::min(most, read_ahead_.size());
    std::copy_n(read_ahead_.data(), count, to);
    read_ahead_.erase(0, count);
    return count;
  }
  for (;;) {
    const ssize_t came = ::recv(fd_, to, most, MSG_DONTWAIT);
    if (came >= 0) return static_cast<std::size_t>(came);
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return failed("receive");
    if (!wait_for(POLLIN, until)) return Error{"receive: no answer in time"};
  }
}

Result<std::string> ProbeSocket::receive_line(ProbeMoment until, std::size_t most) {
  std::string line;
  std::array<char, 256> space{};
  for (;;) {
    const auto came = receive(space.data(), space.size(), until);
    if (!came) return came.error();
    if (*came == 0) return Error{"receive: the other side is gone"};
    line.append(space.data(), *came);
    const std::size_t end = line.find('\n');
    if (std::min(end, line.size()) > most) return Error{"receive: a line that is too long"};
    if (end == std::string::npos) continue;
    read_ahead_.insert(0, line, end + 1);
    return line.substr(0, end);
  }
}

void ProbeSocket::end_sending() {
  ::shutdown(fd_, SHUT_WR);
}

void ProbeSocket::break_off() {
  ::shutdown(fd_, SHUT_RDWR);
}

void ProbeSocket::send_at_once() {
  set_option(fd_, IPPROTO_TCP, TCP_NODELAY, 1);
}

Result<ProbeSocket> listen_on(const std::string& address, std::uint16_t port) {
  const auto addresses = look_up(address.empty() ? "::" : address, port, AI_PASSIVE);
  std::string why = addresses ? "" : addresses.error().message;
  for (const addrinfo* at = addresses ? addresses->get() : nullptr; at != nullptr;
       at = at->ai_next) {
    ProbeSocket socket = new_socket(*at);
    why = try_listen(socket, *at);
    if (why.empty()) return socket;
  }
  if (address.empty()) return listen_on("0.0.0.0", port);  // no IPv6 here
  return Error{"cannot listen on " + address + " port " + std::to_string(port) + ": " + why};
}

std::uint16_t port_of(const ProbeSocket& listener) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  ::getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&own), &size);
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&own)->sin6_port
                                         : reinterpret_cast<sockaddr_in*>(&own)->sin_port);
}

std::string interface_of(const ProbeSocket& connection) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(connection.fd(), reinterpret_cast<sockaddr*>(&own), &size) != 0) return {};
  ifaddrs* listed = nullptr;
  if (::getifaddrs(&listed) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(listed, &::freeifaddrs);
  const Ip address = ip_of(reinterpret_cast<sockaddr*>(&own));
  for (const ifaddrs* at = listed; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr != nullptr && !address.empty() && ip_of(at->ifa_addr) == address)
      return at->ifa_name;
  }
  return {};
}

Result<ProbeSocket> accept_from(const ProbeSocket& listener, ProbeMoment until) {
  for (;;) {
    const int fd = ::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) return ProbeSocket(fd);
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return failed("accept");
    if (!is_ready(listener.fd(), POLLIN, until)) return ProbeSocket();
  }
}

Result<ProbeSocket> connect_to(const std::string& host, std::uint16_t port, ProbeMoment until) {
  const auto addresses = look_up(host, port, 0);
  if (!addresses) return addresses.error();
  std::string why = "there was no time";
  while (Clock::now() < until) {
    for (const addrinfo* at = addresses->get(); at != nullptr; at = at->ai_next) {
      ProbeSocket socket = new_socket(*at);
      why = try_connect(socket, *at, until);
      if (why.empty()) return socket;
    }
    std::this_thread::sleep_until(std::min(until, Clock::now() + between_connects));
  }
  return Error{"cannot reach " + host + " port " + std::to_string(port) + ": " + why};
}

}  // namespace muster

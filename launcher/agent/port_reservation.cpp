#include "launcher/agent/port_reservation.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>

#include "launcher/agent/system_error_text.h"

namespace muster {

namespace {

// Azure Batch's own port: programs written for it find a service of theirs there.
constexpr int never_given_port = 6000;

bool can_bind(int family, int port) {
  const Fd probe(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!probe) return errno == EAFNOSUPPORT;  // no IPv6 here: nobody listens there
  if (family == AF_INET6) {
    const int only = 1;
    ::setsockopt(probe.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(static_cast<std::uint16_t>(port));
    return ::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ||
           errno == EADDRNOTAVAIL;
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return ::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

std::optional<Fd> try_lock(const std::string& directory, int port) {
  const std::string path = directory + "/" + std::to_string(port);
  // Systems that protect sticky directories refuse O_CREAT on another user's file.
  // A pipe that somebody put there must not hold the agent up.
  constexpr int flags = O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
  Fd file(::open(path.c_str(), flags));
  if (!file) {
    file = Fd(::open(path.c_str(), flags | O_CREAT, 0644));
  }
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return {};
  return file;
}

}  // namespace

Result<PortReservation> reserve_ports(int count, int port_min, int port_max, unsigned first_choice,
                                      const std::string& directory) {
  const std::string range = std::to_string(port_min) + "-" + std::to_string(port_max);
  if (count < 0 || port_min < 1 || port_max > 65535 || port_max < port_min) {
    return Error{"cannot reserve " + std::to_string(count) + " ports in " + range};
  }
  if (::mkdir(directory.c_str(), 01777) == 0) {
    ::chmod(directory.c_str(), 01777);
  } else if (errno != EEXIST) {
    return system_error("create " + directory);
  }
  PortReservation held;
  const auto width = static_cast<unsigned>(port_max - port_min + 1);
  for (unsigned i = 0; i < width && static_cast<int>(held.ports.size()) < count; ++i) {
    const int port = port_min + static_cast<int>((first_choice + i) % width);
    if (port == never_given_port) continue;
    auto lock = try_lock(directory, port);
    if (!lock || !can_bind(AF_INET, port) || !can_bind(AF_INET6, port)) continue;
    held.ports.push_back(port);
    held.locks.push_back(std::move(*lock));
  }
  if (static_cast<int>(held.ports.size()) == count) return held;
  return Error{"only " + std::to_string(held.ports.size()) + " of " + std::to_string(count) +
               " ports wanted are free in " + range + " on this node"};
}

}  // namespace muster

#include "launcher/agent/attempt/port_reservation.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "launcher/os/fd.h"
#include "launcher/os/private_directory.h"

namespace muster {

namespace {

// Azure Batch's own port: programs written for it find a service of theirs there.
constexpr int never_given_port = 6000;
constexpr mode_t shared_mode = 01777;

bool can_bind(int family, int port) {
  const Fd probe(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!probe) return errno == EAFNOSUPPORT;  // no IPv6 here: nobody listens there
  const bool is_v6 = family == AF_INET6;
  const int only = 1;
  if (is_v6) ::setsockopt(probe.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
  sockaddr_in6 address{};  // of either: the family and the port lie at the same places
  address.sin6_family = static_cast<sa_family_t>(family);
  address.sin6_port = htons(static_cast<std::uint16_t>(port));
  const socklen_t size = is_v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return ::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), size) == 0 ||
         (is_v6 && errno == EADDRNOTAVAIL);
}

bool can_bind(int port) {
  return can_bind(AF_INET, port) && can_bind(AF_INET6, port);
}

struct PortLock {
  Fd file;                     // locked; none: it is taken
  bool is_of_another = false;  // whose file it is
};

PortLock try_lock(const std::string& directory, int port) {
  const std::string path = directory + "/" + std::to_string(port);
  // Systems that protect sticky directories refuse O_CREAT on another user's file.
  // A pipe that somebody put there must not hold the agent up.
  constexpr int flags = O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
  Fd file(::open(path.c_str(), flags));
  if (!file) {
    file = Fd(::open(path.c_str(), flags | O_CREAT, 0644));
  }
  struct stat facts {};
  const bool is_of_another = ::lstat(path.c_str(), &facts) == 0 && facts.st_uid != ::geteuid();
  if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return {std::move(file), is_of_another};
  return {{}, is_of_another};
}

// Empty: everybody may put files there and nobody can remove others'.
std::string fault_of_shared(const std::string& directory) {
  if (::mkdir(directory.c_str(), shared_mode) == 0) ::chmod(directory.c_str(), shared_mode);
  struct stat facts {};
  if (::lstat(directory.c_str(), &facts) != 0) return system_error("use " + directory).message;
  if (S_ISDIR(facts.st_mode) && (facts.st_mode & shared_mode) == shared_mode) return {};
  return directory + " is " + (S_ISDIR(facts.st_mode) ? "a directory" : "no directory") + " of " +
         owner_and_mode(facts) + ", where not everybody may lock ports";
}

// The ports of a range, in the order in which they are tried.
std::vector<int> ports_from(int port_min, int port_max, unsigned first_choice) {
  const auto width = static_cast<unsigned>(port_max - port_min + 1);
  std::vector<int> ports;
  for (unsigned i = 0; i < width; ++i) {
    const int port = port_min + static_cast<int>((first_choice + i) % width);
    if (port != never_given_port) ports.push_back(port);
  }
  return ports;
}

// Adds what can be had of `ports`; returns those that another user's files keep back. Whoever locks
// such a file may be this user: a lock in `own` as well tells that.
std::vector<int> take_ports(const std::vector<int>& ports, const std::string& directory,
                            std::size_t count, PortReservation& held,
                            const std::string& own = {}) {
  std::vector<int> kept_back;
  for (const int port : ports) {
    if (held.ports.size() == count) break;
    PortLock lock = try_lock(directory, port);
    if (!lock.file && lock.is_of_another) kept_back.push_back(port);
    if (!lock.file || !can_bind(port)) continue;
    if (lock.is_of_another && !own.empty() && open_private_directory(own)) {
      Fd second = try_lock(own, port).file;
      if (!second) continue;
      held.locks.push_back(std::move(second));
    }
    held.ports.push_back(port);
    held.locks.push_back(std::move(lock.file));
  }
  return kept_back;
}

}  // namespace

Result<PortReservation> reserve_ports(int count, int port_min, int port_max, unsigned first_choice,
                                      const PortDirectories& directories) {
  const std::string range = std::to_string(port_min) + "-" + std::to_string(port_max);
  if (count < 0 || port_min < 1 || port_max > 65535 || port_max < port_min) {
    return Error{"cannot reserve " + std::to_string(count) + " ports in " + range};
  }
  PortReservation held;
  const auto wanted = static_cast<std::size_t>(count);
  std::vector<int> left = ports_from(port_min, port_max, first_choice);
  held.remark = fault_of_shared(directories.shared);
  if (held.remark.empty()) {
    left = take_ports(left, directories.shared, wanted, held, directories.own);
    if (held.ports.size() == wanted) return held;
    if (!left.empty()) held.remark = "files of other users lock ports in " + directories.shared;
  }
  if (!left.empty()) {
    const auto own = open_private_directory(directories.own);
    if (!own) return Error{held.remark + "; " + own.error().message};
    take_ports(left, directories.own, wanted, held);
    held.remark += ": ports are held in " + directories.own + " instead";
  }
  if (held.ports.size() == wanted) return held;
  return Error{"only " + std::to_string(held.ports.size()) + " of " + std::to_string(count) +
               " ports wanted are free in " + range + " on this node" +
               (held.remark.empty() ? "" : "; " + held.remark)};
}

}  // namespace muster

// A port for a process that has yet to be started.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "tests/catch.h"

namespace muster::test {

// A port of this host that nobody listens on.
inline std::uint16_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(socket, any, size) == 0);
  REQUIRE(::getsockname(socket, any, &size) == 0);
  ::close(socket);
  return ntohs(address.sin_port);
}

}  // namespace muster::test

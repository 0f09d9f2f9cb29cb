// A port for a process that has yet to be started.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <random>

#include "tests/catch.h"

namespace muster::test {

// A port of this host that nobody listens on, and that the kernel gives to no connection meanwhile:
// below those that it chooses from.
inline std::uint16_t free_port() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::random_device random;
  for (int tries = 0; tries < 100; ++tries) {
    const auto port = static_cast<std::uint16_t>(20'000 + random() % 12'000);
    address.sin_port = htons(port);
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int bound =
        ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    ::close(socket);
    if (bound == 0) return port;
  }
  FAIL("no port is free");
  return 0;
}

}  // namespace muster::test

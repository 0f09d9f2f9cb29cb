#include "launcher/agent/measure_claim.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace muster {

bool MeasureClaim::take() {
  if (socket_) return true;
  // An abstract name: of no file system, the same for all users of the host's network.
  constexpr std::string_view name("\0muster-measures-this-host", 26);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(socket.get(), raw, size) != 0 && errno == EADDRINUSE) return false;
  // Whatever else went wrong is no reason not to measure.
  socket_ = std::move(socket);
  return true;
}

}  // namespace muster

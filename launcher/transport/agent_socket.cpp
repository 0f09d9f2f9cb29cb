#include "launcher/transport/agent_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace muster {

std::variant<Fd, NobodyListens, Error> connect_agent_socket(const std::string& run_folder) {
  Fd folder(::open(run_folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) {
    if (errno == ENOENT) return NobodyListens{};
    return Error{run_folder + ": " + std::strerror(errno)};
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A socket's path holds 108 bytes, a home directory may be longer.
  const std::string path = "/proc/self/fd/" + std::to_string(folder.get()) + "/agent.sock";
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return Error{std::string("no socket: ") + std::strerror(errno)};
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    // Refused: the file of an agent that is gone.
    if (errno == ENOENT || errno == ECONNREFUSED) return NobodyListens{};
    return Error{run_folder + "/agent.sock: " + std::strerror(errno)};
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      peer.uid != ::geteuid()) {
    return Error{run_folder + "/agent.sock belongs to another user; remove it"};
  }
  return socket;
}

}  // namespace muster

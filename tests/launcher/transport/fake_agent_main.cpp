// Test support: an `agent serve` that echoes on its socket. Told by its node's name how to
// misbehave.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace {

int listen_in(const std::string& folder) {
  std::filesystem::create_directories(folder);
  std::filesystem::current_path(folder);
  ::unlink("agent.sock");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string_view("agent.sock").copy(address.sun_path, sizeof address.sun_path - 1);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return -1;
  return ::listen(listener, 8) == 0 ? listener : -1;
}

void echo_for_ever(int listener) {
  ::alarm(60);  // a test that fails must leave nothing behind
  std::array<char, 65536> buffer;
  for (int peer; (peer = ::accept(listener, nullptr, nullptr)) >= 0; ::close(peer)) {
    for (ssize_t size; (size = ::read(peer, buffer.data(), buffer.size())) > 0;) {
      for (ssize_t sent = 0; sent < size;) sent += ::write(peer, buffer.data() + sent, size - sent);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> options;
  for (int i = 3; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  const std::string node = options["--node"];
  if (node == "silent") ::pause();
  if (node == "broken") {
    std::fprintf(stderr, "no room for the spool\n");
    return 1;
  }
  const std::string folder = options["--home"] + "/run/" + options["--controller"] + "/" + node;
  const int listener = listen_in(folder);
  if (listener < 0) return 2;
  if (::fork() != 0) return 0;
  ::setsid();
  for (const int standard : {0, 1, 2}) ::dup2(::open("/dev/null", O_RDWR), standard);
  echo_for_ever(listener);
  return 0;
}

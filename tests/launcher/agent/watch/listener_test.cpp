// Lines of /proc/net/tcp and tcp6 of Linux 6.1.
#include "launcher/agent/watch/activity.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "launcher/os/fd.h"
#include "tests/catch.h"

using namespace muster;

namespace {

constexpr int looked_for = 0x73A1;

std::string a_line(const std::string& local, const std::string& remote, const std::string& state) {
  return "   0: " + local + " " + remote + " " + state +
         " 00000000:00000000 00:00000000 00000000     0        0 20617 1 0000000000000000 100\n";
}

bool hears(const std::string& lines) {
  return has_listener("  sl  local_address rem_address   st tx_queue rx_queue\n" + lines,
                      looked_for);
}

}  // namespace

TEST_CASE("who listens on a port is told from who is connected to it") {
  const std::string none = "00000000:0000";
  CHECK(hears(a_line("0100007F:73A1", none, "0A")));
  CHECK(hears(a_line("0100007F:0050", none, "0A") + a_line("00000000:73A1", none, "0A")));
  CHECK(hears(a_line("00000000000000000000000000000000:73A1",
                     "00000000000000000000000000000000:0000", "0A")));
  CHECK_FALSE(hears(a_line("0100007F:73A1", "0100007F:0050", "01")));
  CHECK_FALSE(hears(a_line("0100007F:0050", "0100007F:73A1", "01")));
  CHECK_FALSE(hears(a_line("0100007F:73A2", none, "0A")));
  CHECK_FALSE(hears(""));
  CHECK_FALSE(hears("   0: 0100007F:73A1 "));
  CHECK_FALSE(hears("   0: 0100007F:73A1 0000"));
}

TEST_CASE("ten seconds without anybody on the port are needed to say that ranks never met") {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  ListenWatch watch;
  ListenWatch::Clock::time_point now{};
  const auto look = [&](int times) {
    for (int i = 0; i < times; ++i) watch.poll(now += std::chrono::seconds{1});
  };
  look(20);
  CHECK_FALSE(watch.has_missed());  // of no port
  watch.begin(ntohs(address.sin_port));
  look(9);
  CHECK_FALSE(watch.has_missed());
  look(1);
  CHECK(watch.has_missed());
  REQUIRE(::listen(socket.get(), 1) == 0);
  look(1);
  CHECK_FALSE(watch.has_missed());
}

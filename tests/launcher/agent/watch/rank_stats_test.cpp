// What went through a node's network, of files that the test writes: of Linux 6.1, shortened.
#include "launcher/agent/watch/activity.h"

#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;

TEST_CASE("a node's network is all that its interfaces and InfiniBand ports received and sent") {
  FakeRoot root;
  CHECK(network_bytes(root.path()) == 0);
  root.write("/proc/net/dev",
             "Inter-|   Receive                                          |  Transmit\n"
             " face |bytes packets errs drop fifo frame compressed multicast|bytes packets\n"
             "    lo:    1000       2    0    0    0     0     0         0     1000       2\n"
             "  eth0: 3000000    1200    0    0    0     0     0         7   500000     800\n");
  CHECK(network_bytes(root.path()) == 3'502'000);
  const std::string devices = "/sys/class/infiniband/";
  root.write(devices + "mlx5_0/ports/1/counters/port_xmit_data", "100\n");
  root.write(devices + "mlx5_0/ports/1/counters/port_rcv_data", "20\n");
  root.write(devices + "mlx5_1/ports/2/counters/port_rcv_data", "5\n");
  root.write(devices + ".old/ports/1/counters/port_rcv_data", "9\n");
  CHECK(network_bytes(root.path()) == 3'502'000 + 4 * 125);
}

// Ports of this machine held for attempts: one flock'd file per port in a directory that every
// agent of the machine shares, whoever runs it, and a bind as proof that nobody else listens. The
// lock goes with the object, or with the process. What another user put in the way stops nobody:
// where the shared directory or a file in it cannot be used, the user's own directory holds the
// lock, which then keeps off this user's agents alone.
#pragma once

#include <string>
#include <vector>

#include "launcher/os/fd.h"
#include "scheduler/model/result.h"

namespace muster {

struct PortReservation {
  std::vector<int> ports;
  std::vector<Fd> locks;
  std::string remark;  // what is in the way, whose it is, and what was done; empty: nothing
};

struct PortDirectories {
  std::string own;
  std::string shared = "/tmp/muster-ports";
};

// `count` free ports in [port_min, port_max], looked for from `first_choice` on, round the range.
Result<PortReservation> reserve_ports(int count, int port_min, int port_max, unsigned first_choice,
                                      const PortDirectories& directories);

}  // namespace muster

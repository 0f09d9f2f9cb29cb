// Ports of this machine held for attempts: one flock'd file per port in a directory that every
// agent of the machine shares, whoever runs it, and a bind as proof that nobody else listens. The
// lock goes with the object, or with the process.
#pragma once

#include <string>
#include <vector>

#include "launcher/os/fd.h"
#include "scheduler/model/result.h"

namespace muster {

struct PortReservation {
  std::vector<int> ports;
  std::vector<Fd> locks;
};

// `count` free ports in [port_min, port_max], looked for from `first_choice` on, round the range.
Result<PortReservation> reserve_ports(int count, int port_min, int port_max, unsigned first_choice,
                                      const std::string& directory = "/tmp/muster-ports");

}  // namespace muster

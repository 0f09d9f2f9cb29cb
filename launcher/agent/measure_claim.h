// Only one agent of a host measures it: two would measure each other. Held as a name in the
// kernel's table of sockets, which is empty again when its holder is gone, however it ended.
#pragma once

#include "launcher/os/fd.h"

namespace muster {

class MeasureClaim {
 public:
  // False: another agent of this host has it. True when it is held already.
  bool take();
  void give_back() { socket_.reset(); }

 private:
  Fd socket_;
};

}  // namespace muster

// The `muster controller` process: lock, log, store, loop. Starts detached or in the foreground.
#pragma once

#include <string>

#include "launcher/controller/home.h"

namespace muster {

struct ControllerOptions {
  Home home;
  std::string binary;    // the executable to push to nodes: this one
  std::string build_id;  // of it
  bool detached = false;
  int idle_limit_s = 600;  // without live jobs and clients; 0: never ends by itself
};

// 0: ended by itself, was told to, or another controller holds the lock; 99: cannot work (said on
// stderr and in controller.log).
int controller_main(const ControllerOptions& options);

}  // namespace muster

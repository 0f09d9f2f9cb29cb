// The parent of a detached controller: holds `supervisor.lock`, starts the controller and starts it
// again when it dies, at once and then ever less often (restart_pause.h). It opens nothing else.
//
// It ends with a controller that ends in order (idle, `muster controller --stop`, SIGTERM, the
// state directory was removed), and ends the controller first when it is told to end itself
// (SIGTERM). A controller that lives already, whose own supervisor was killed, is waited for: one
// that ended in order has removed its socket.
#pragma once

#include <filesystem>

#include "launcher/controller/main.h"
#include "scheduler/model/result.h"

namespace muster {

inline std::filesystem::path supervisor_lock(const Home& home) {
  return home.root / "supervisor.lock";
}

// Returns in the process that was called: 0 when a controller serves, or will soon; else 99, said
// in controller.log.
int supervisor_main(const ControllerOptions& options);

// Ends the supervisor with its controller, in order, and returns when no controller is left. False:
// there was no supervisor.
Result<bool> stop_supervised(const Home& home);

}  // namespace muster

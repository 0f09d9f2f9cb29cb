// The parent of a detached controller: holds `supervisor.lock`, starts the controller and starts it
// again when it dies, at once and then ever less often (RestartPause). It opens nothing else.
//
// It ends with a controller that ends in order (idle, `muster controller --stop`, SIGTERM, the
// state directory was removed), and ends the controller first when it is told to end itself
// (SIGTERM). A controller that lives already, whose own supervisor was killed, is waited for: one
// that ended in order has removed its socket.
#pragma once

#include <algorithm>
#include <filesystem>
#include <utility>

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

// How long the supervisor waits before it starts a controller that died again: not at all after a
// while of service, else ever longer. Never longer than a command waits for a controller.
class RestartPause {
 public:
  Milliseconds after(Milliseconds lived) {
    if (lived < enough) return std::exchange(next_, std::min(2 * next_, longest));
    next_ = shortest;
    return Milliseconds{0};
  }

 private:
  static constexpr Milliseconds enough{5'000};
  static constexpr Milliseconds shortest{250};
  static constexpr Milliseconds longest{8'000};
  Milliseconds next_ = shortest;
};

}  // namespace muster

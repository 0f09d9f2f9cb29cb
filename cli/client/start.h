// A connection to a controller that can be relied on: the running one, or one started for the
// purpose. The controller's own lock file decides when several commands start one at once.
#pragma once

#include <string>

#include "cli/client/connection.h"
#include "cli/terminal/common_options.h"
#include "launcher/controller/store/home.h"
#include "scheduler/model/result.h"

namespace muster {

// The state directory with mode 0700 and a file written to it; the Error says what to do about it.
Status prepare_home(const Home& home);

// Connected and of this build, or of another one that has jobs to look after (with a notice).
Result<ControllerClient> ensure_controller(const Home& home, const CommonOptions& common);

// As `ensure_controller`, then `ask`. Refusals are answers too.
Result<FromController> ask_controller(const Home& home, const ToController& question,
                                      const CommonOptions& common);

// The program that controllers are started from: this one, or the `muster` beside it when this is
// `muster-sandbox`.
std::string muster_program();

// Its build id, from its ELF note (the linker's SHA-1 over the contents): two muster binaries are
// the same build exactly when these are equal. Lower-case hex; empty when linked without one.
std::string own_build_id();

}  // namespace muster

// A connection to a controller that can be relied on: the running one, or one started for the
// purpose. The controller's own lock file decides when several commands start one at once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/client/connection.h"
#include "cli/terminal/common_options.h"
#include "launcher/controller/store/home.h"
#include "launcher/controller/store/store.h"
#include "scheduler/model/result.h"

namespace muster {

// The state directory with mode 0700 and a file written to it; the Error says what to do about it.
Status prepare_home(const Home& home);

// Connected and of this build, or of another one that has jobs to look after (with a notice).
Result<ControllerClient> ensure_controller(const Home& home, const CommonOptions& common);

// As `ensure_controller`, then `ask`. Refusals are answers too.
Result<FromController> ask_controller(const Home& home, const ToController& question,
                                      const CommonOptions& common);

// For what is granted or refused. What is not ends the verb; where nobody answered with `attempt`
// ("cannot cancel: ") before why.
Accepted accepted_or_end(const Home& home, const ToController& question, const std::string& attempt,
                         const CommonOptions& common);

// The program that controllers are started from: this one, or the `muster` beside it when this is
// `muster-sandbox`.
std::string muster_program();

// Its build id, from its ELF note (the linker's SHA-1 over the contents): two muster binaries are
// the same build exactly when these are equal. Lower-case hex; empty when linked without one.
std::string own_build_id();

// What shows a job as unfinished sees to it that somebody looks after it: starts a controller where
// one served these jobs and none does, and says since when none did. A copy of a state directory,
// which no controller ever served, is only read.
void serve_unfinished(const Home& home, const Store& store, const std::vector<JobRow>& rows,
                      const CommonOptions& common);

}  // namespace muster

// A blocking connection to the controller of a state directory, for one request; and one that can
// be relied on: to the running controller, or to one started for the purpose. The controller's own
// lock file decides when several commands start one at once.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/common_options.h"
#include "launcher/controller/store/home.h"
#include "launcher/controller/store/store.h"
#include "launcher/os/fd.h"
#include "launcher/wire/client_message.h"
#include "launcher/wire/message_codec.h"
#include "scheduler/model/result.h"
#include "scheduler/text/clock.h"

namespace muster {

// The socket must belong to this user (or root): the peer's credentials are checked before a byte
// is sent.
class ControllerClient {
 public:
  // Nothing: no controller listens here. An Error: something does, but it must not be spoken to.
  static Result<std::optional<ControllerClient>> connect(const Home& home);

  Status send(const ToController& message, std::string_view payload = {});
  // The next message; nothing when `timeout` passes first. An Error: the controller went away.
  Result<std::optional<Received<FromController>>> receive(Milliseconds timeout);
  // To wait for it beside other things. After it is readable call `receive` until it gives nothing.
  int descriptor() const { return fd_.get(); }

 private:
  explicit ControllerClient(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
  FrameReader reader_;
};

// One question, one answer, within `timeout`.
Result<FromController> ask(ControllerClient& client, const ToController& question,
                           Milliseconds timeout);

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

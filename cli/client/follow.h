// Follows a job to its end: output, notices, progress, through restarts of the controller.
#pragma once

#include <optional>
#include <string>

#include "cli/client/log_follower.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/terminal.h"
#include "launcher/controller/store/home.h"
#include "launcher/wire/client_message.h"

namespace muster {

// What the process returns after Ctrl-C or SIGTERM: the job continues.
inline constexpr int interrupted_exit_code = 130;

struct FollowRequest {
  JobId job;
  LogSelection logs;
  Stream ranks_to = Stream::out;
  bool several_ranks = false;
  // Ctrl-C on a terminal asks whether to detach or cancel; otherwise it detaches at once, as
  // SIGTERM always does.
  bool may_cancel = false;
  bool shows_events = true;
  std::string on_detach;  // instead of how to come back to the output
};

struct Followed {
  std::optional<Ended> ended;  // none: detached, or the controller cannot be reached
  int exit_code = 0;           // the job's, or why its end was not seen
};

Followed follow_job(const Home& home, const FollowRequest& request, const CommonOptions& common);

}  // namespace muster

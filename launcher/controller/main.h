// The `muster controller` process: lock, log, store, loop. In the foreground, or the child of a
// supervisor (supervisor.h).
#pragma once

#include <filesystem>
#include <string>

#include "launcher/controller/store/home.h"
#include "scheduler/model/retention.h"
#include "scheduler/text/clock.h"

namespace muster {

// What a child tells its supervisor, on the descriptor it was given, once clients can come.
inline constexpr char controller_serves = 'R';

// How often a controller that lives sets the time of its lock file.
inline constexpr Seconds controller_sign_of_life{5};

// What a child ends with when another controller has the state directory.
inline constexpr int another_controller_serves = 75;

struct ControllerOptions {
  Home home;
  std::string binary;    // the executable to push to nodes: this one
  std::string build_id;  // of it
  int supervisor = -1;   // where to tell the supervisor; -1: in the foreground
  int idle_limit_s = 600;  // without live jobs and clients; 0: never ends by itself
  RetentionLimits retention{};
};

// 0: ended by itself, was told to, or (in the foreground) another controller holds the lock; 99:
// cannot work (said on stderr; by a child in controller.log).
int controller_main(const ControllerOptions& options);

// The controller's log file, `$MUSTER_HOME/controller.log`: rotated at 4 MiB, one older file kept.
// The only place that includes spdlog.

void open_log(const std::filesystem::path& path, bool to_terminal);
void log_info(const std::string& sentence);
void log_warning(const std::string& sentence);
void log_error(const std::string& sentence);

}  // namespace muster

// The one table of exit codes of the command line (see README.md, "Exit codes").
#pragma once

namespace muster {

enum class ExitCode : int {
  done = 0,
  failure = 1,                // a rank's own code that collides with this table is reported as 1
  invalid_job = 90,           // the job file is wrong or cannot run here
  no_nodes = 91,              // not enough healthy nodes
  launch = 92,                // could not reach the nodes, start the ranks or copy the outputs
  gave_up = 93,               // restarting would not help: do not requeue
  health_gate = 94,           // a health check stopped the job
  hang = 95,                  // no progress in time, repeatedly
  preempted_saved = 96,       // preempted with a checkpoint at the last step
  preempted_unsaved = 97,     // preempted without one
  time_limit = 98,            // limits.timeout reached
  internal = 99,              // a bug in muster, or its own state is unusable
  canceled = 143,             // cancelled by the user (128 + SIGTERM)
};

// One line for `muster --help` and the documentation.
const char* exit_code_meaning(ExitCode code);

// What the command line returns for a rank that exited with `code`: 90-99 except 93 become 1.
int exit_code_of_rank_code(int code);
inline int exit_code_of_signal(int signal) {
  return 128 + signal;
}

}  // namespace muster

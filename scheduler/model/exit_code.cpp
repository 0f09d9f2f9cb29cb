#include "scheduler/model/exit_code.h"

namespace muster {

const char* exit_code_meaning(ExitCode code) {
  switch (code) {
    case ExitCode::done:
      return "every rank ended with 0";
    case ExitCode::failure:
      return "the first failed rank's own code (1-125)";
    case ExitCode::invalid_job:
      return "invalid job file, or one that cannot run here";
    case ExitCode::no_nodes:
      return "not enough healthy nodes";
    case ExitCode::launch:
      return "could not reach the nodes, start the ranks or copy the outputs";
    case ExitCode::gave_up:
      return "retries exhausted, do not requeue";
    case ExitCode::health_gate:
      return "stopped by a health check";
    case ExitCode::hang:
      return "no progress in time";
    case ExitCode::preempted_saved:
      return "preempted, with a checkpoint at the last step";
    case ExitCode::preempted_unsaved:
      return "preempted, without a checkpoint at the last step";
    case ExitCode::time_limit:
      return "time limit reached";
    case ExitCode::internal:
      return "internal error";
    case ExitCode::canceled:
      return "cancelled by the user";
  }
  return "unknown";
}

int exit_code_of_rank_code(int code) {
  const bool reserved = code >= 90 && code <= 99 && code != static_cast<int>(ExitCode::gave_up);
  return reserved ? static_cast<int>(ExitCode::failure) : code;
}

int exit_code_of_signal(int signal) {
  return 128 + signal;
}

}  // namespace muster

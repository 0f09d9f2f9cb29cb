// What a program of an attempt that speaks to its agent has to know: `ssh`, `pdsh` and mpi-start.
#pragma once

#include <string>

#include "scheduler/model/ids.h"
#include "scheduler/model/result.h"

namespace muster {

// Which attempt this process belongs to, and where its agent listens.
struct OwnAttempt {
  std::string socket;
  JobId job;
  AttemptId attempt;
};
Result<OwnAttempt> own_attempt();

// What ssh itself returns when it cannot reach the host: launchers know it.
inline constexpr int no_connection = 255;

}  // namespace muster

// The name of what a job is doing, in Azure's words.
#pragma once

#include "scheduler/state/state.h"

namespace muster {

// NotStarted, Queued, Provisioning (nodes are being connected), Preparing (checks and staging),
// Starting, Running, Finalizing. An ended job has its JobEndState instead.
const char* job_state_name(const State& state, const Job& job);

// The same from the job alone: Preparing also while nodes are being connected.
const char* job_state_name(const Job& job);

}  // namespace muster

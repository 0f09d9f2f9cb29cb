// The only place where State changes. Pure: no clock, no I/O; a record about something unknown (a
// job that has ended, an attempt that is over) changes nothing.
#pragma once

#include "scheduler/model/record.h"
#include "scheduler/state/state.h"

namespace muster {

void apply(State& state, const Record& record);

}  // namespace muster

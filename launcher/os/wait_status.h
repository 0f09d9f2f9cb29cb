// How a child ended, as waitpid says it.
#pragma once

#include "scheduler/model/outcome.h"

namespace muster {

ExitStatus exit_status_of(int wait_status);

}  // namespace muster

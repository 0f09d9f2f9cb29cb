// What a verb returns to the shell when its own work fails, as plain numbers; the end of a job has
// the whole table of `ExitCode`. Numbers only: nothing is told here.
#pragma once

#include "scheduler/model/exit_code.h"

namespace muster {

inline constexpr int usage_error = 2;  // the words of the command line do not fit together
inline constexpr int plain_failure = static_cast<int>(ExitCode::failure);
inline constexpr int invalid_file = static_cast<int>(ExitCode::invalid_job);
inline constexpr int internal_error = static_cast<int>(ExitCode::internal);

}  // namespace muster

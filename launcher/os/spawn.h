// Starts a program of this machine with chosen file descriptors; nothing else of ours leaks into
// it.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>

#include "scheduler/model/result.h"

namespace muster {

struct Inherit {
  int ours;
  int theirs;  // 0, 1, 2 or above
};

// The program is looked up in PATH; signals are reset to their defaults. Standard descriptors that
// are not named in `inherited` are /dev/null.
Result<pid_t> spawn(std::span<const std::string> argv, std::span<const Inherit> inherited);

// Kills and reaps; returns at once, a killed child of ours does not linger.
void kill_and_reap(pid_t child);

}  // namespace muster

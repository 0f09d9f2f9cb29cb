// Programs of this machine, run to their end: what a sandbox asks of `ip`, `ssh-keygen` and
// `useradd`. Blocking; the error is the program's own last words.
#pragma once

#include <string>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

using Command = std::vector<std::string>;

// What it wrote to standard output; an Error when it ended with anything but 0.
Result<std::string> run_command(const Command& command, const std::string& input = "");

// All of them, some at a time. The first Error; the others have run all the same.
Status run_commands(const std::vector<Command>& commands);

// Whether it can be found in PATH or in the directories of an administrator.
bool has_program(const std::string& name);

}  // namespace muster

// The verbs of `muster-sandbox`, declared as those of muster are.
#pragma once

#include "cli/grammar/command_line.h"

namespace muster {

void add_sandbox_verbs(CommandLine& line);
void add_drill(CommandLine& line);

inline const ProgramTexts sandbox_program{
    "muster-sandbox",
    "muster-sandbox simulates hosts on this machine, each with its own sshd, and injects faults",
    "Exit codes: 0 done; 1 not done, or an expectation of a drill does not hold; 2 wrong usage;\n"
    "90 invalid drill file; 130 interrupted; of exec: those of its command."};

}  // namespace muster

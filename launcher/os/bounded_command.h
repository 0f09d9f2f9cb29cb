// A program of this machine run to its end, within a time limit, with nothing to read. Blocks for
// that long at most. No shell: the words are the program's arguments.
#pragma once

#include <string>
#include <vector>

#include "scheduler/model/clock.h"
#include "scheduler/model/result.h"

namespace muster {

// What it wrote to standard output; an Error when it ended with anything but 0, with its last
// words, or did not end in time, in which case it is killed with what it started.
Result<std::string> run_within(const std::vector<std::string>& argv, Milliseconds limit);

}  // namespace muster

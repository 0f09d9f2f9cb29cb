// `muster agent …`: processes that muster starts itself. Their arguments come from muster, so they
// are read without the grammar for people.
#pragma once

#include <string>
#include <vector>

namespace muster {

// What follows `muster agent`. Returns the exit code of the process.
int agent_process(const std::vector<std::string>& words);

}  // namespace muster

// Everything in a value as text, one line per fact: to compare two states or decisions and to see
// where they differ. For tests and `replay`; nobody parses it.
#pragma once

#include <string>

#include "scheduler/state/state.h"

namespace muster {

std::string describe(const State& state);
std::string describe(const Record& record);
std::string describe(const Decision& decision);

}  // namespace muster

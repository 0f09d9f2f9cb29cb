// What must always hold of a State, checked from the outside. Each violation is a sentence. Used by
// the tests.
//
// I1  a node is in one attempt at most, of the job that owns it
// I12 members of an elastic attempt are nodes that are held, each with all its ranks and in its
// place
#pragma once

#include <string>
#include <vector>

#include "scheduler/state/state.h"

namespace muster {

std::vector<std::string> violations(const State& state);

}  // namespace muster

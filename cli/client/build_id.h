// The build id of the running executable, from its ELF note (the linker's SHA-1 over the contents):
// two muster binaries are the same build exactly when these are equal.
#pragma once

#include <string>

namespace muster {

// Lower-case hex; empty when the executable was linked without one.
std::string own_build_id();

}  // namespace muster

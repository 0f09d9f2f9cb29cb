// The file this process was started from, so that it can start another of its kind. Where that file
// has been replaced, removed or hidden meanwhile (an upgrade, a copy by somebody else, a mount), a
// name by which the system still has it, good as long as this process lives.
#pragma once

#include <string>

namespace muster {

std::string own_program();

}  // namespace muster

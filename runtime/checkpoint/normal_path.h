// A path as a person may have typed it, in the form in which paths are compared and taken apart.
#pragma once

#include <string>

namespace muster {

// Absolute, without "." and "..", and without "/" at its end unless it is the root. Links stay.
std::string normal_path(const std::string& path);

}  // namespace muster

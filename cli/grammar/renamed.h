// Options and verbs under names that they had before: still accepted, not listed. Pure.
#pragma once

#include <string>
#include <vector>

namespace muster {

// The words of a command line with each old name replaced by the present one. Words after `--`
// belong to a program and stay.
std::vector<std::string> with_present_names(std::vector<std::string> words);

}  // namespace muster

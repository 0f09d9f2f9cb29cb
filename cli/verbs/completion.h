// Completion for shells, made from the grammar itself so that it cannot fall behind. Pure.
#pragma once

#include <string>

#include "cli/grammar/command_line.h"

namespace muster {

std::string bash_completion(const VerbShape& shape);
std::string zsh_completion(const VerbShape& shape);
std::string fish_completion(const VerbShape& shape);

}  // namespace muster

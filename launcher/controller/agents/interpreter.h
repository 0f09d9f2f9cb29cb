// Which program a command cannot do without, as far as its first word tells: `python3 train.py`
// needs python3 on every node. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The interpreters named as the first word of the command; empty for anything that the shell must
// work out first (assignments, expansions, paths, builtins, other programs).
std::vector<std::string> interpreters_of(std::string_view command);

}  // namespace muster

// Words of agents and commands on their way into the journal: more is no help to anybody, and a
// broken agent must not fill it. Pure functions.
#pragma once

#include <string>
#include <vector>

namespace muster {

// The beginning, as UTF-8.
void limit_text(std::string& text);

// Each of them; of too many, the last.
void limit_lines(std::vector<std::string>& lines);

}  // namespace muster

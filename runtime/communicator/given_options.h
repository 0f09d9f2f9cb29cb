// Finds what ranks were given differently. Pure.
#pragma once

#include <string>
#include <vector>

namespace muster {

// What one process was given, as lines "name=value"; `name`: how a person knows it.
struct GivenOptions {
  std::string name;  // "rank 3"
  std::string text;
};
// One sentence that names the first option that differs, who has which value of it, and what else
// differs; empty: nothing does. Pure.
std::string options_difference(const std::vector<GivenOptions>& all);

}  // namespace muster

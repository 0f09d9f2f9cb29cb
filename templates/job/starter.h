// The job files `muster init` writes: commented starting points, compiled in.
#pragma once

#include <string_view>
#include <vector>

namespace muster {

struct Starter {
  std::string_view name;     // what `muster init` is given
  std::string_view summary;  // one line for its help
  std::string_view text;     // the file
};

const std::vector<Starter>& starters();

}  // namespace muster

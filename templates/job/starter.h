// The job files `muster init` writes: commented starting points, configs/starters, compiled in.
#pragma once

#include <string_view>
#include <vector>

namespace muster {

struct Starter {
  std::string_view name;     // what `muster init` is given
  std::string_view summary;  // one line for its help
  std::string_view text;     // the file
};

// In the order in which `muster init` lists them: what is tried first, first.
const std::vector<Starter>& starters();

struct StarterText {
  std::string_view name;  // of its file, without .yml
  std::string_view text;
};

// Every file of configs/starters, in a source that embed_texts.cmake writes.
const std::vector<StarterText>& starter_texts();

}  // namespace muster

// One line of an nhc.conf in its words, as a shell would split it. Pure; runs nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

struct NhcWord {
  std::string text;
  bool expands = false;  // holds a `$` or a backtick, which only a shell fills in
};

struct NhcLine {
  int number = 0;
  std::string target;
  std::vector<NhcWord> words;  // the check and its arguments; at least one
};

// A line without its line end. An empty or comment line has no words.
Result<NhcLine> split_nhc_line(std::string_view text, int number);

}  // namespace muster

// What ranks said as a result for machines: `[{attempt, rank, text}]`, a line of output each, in
// the order in which they are read. A line that is longer than the limit is given in pieces.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/terminal/document.h"
#include "scheduler/model/ids.h"

namespace muster {

class LogDocument {
 public:
  void feed(AttemptId attempt, RankId rank, std::string_view bytes);
  // All of it, unfinished lines too.
  Document take();

 private:
  using Key = std::pair<AttemptId, RankId>;

  std::map<Key, std::string> unfinished_;
  std::vector<std::pair<Key, std::string>> lines_;
};

}  // namespace muster

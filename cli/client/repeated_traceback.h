// Python tracebacks among the merged lines of several ranks: one that was shown before is counted
// instead of shown again, so that 200 ranks with one mistake do not bury it. A traceback is held
// back until its last line, the exception, has come. Pure; memory is bounded.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/ids.h"

namespace muster {

class RepeatedTraceback {
 public:
  using Emit = std::function<void(RankId, std::string_view line)>;

  void feed(RankId rank, std::string_view line, const Emit& emit);
  // The end of the output: what is held back, and a line for each traceback that came again.
  void finish(const Emit& emit);

 private:
  static constexpr std::size_t lines_held = 200;    // a longer one is shown as it comes
  static constexpr std::size_t tracebacks_known = 100;

  struct Seen {
    RankId first;
    std::string exception;  // its last line
    std::size_t again = 0;
    std::set<RankId> ranks;  // that said it
  };

  void show(RankId rank, const Emit& emit);
  void end(RankId rank, const Emit& emit);

  std::map<RankId, std::vector<std::string>> held_;
  std::map<std::string, Seen> seen_;
};

}  // namespace muster

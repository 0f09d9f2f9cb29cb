// What ranks say, merged for one reader. One rank: its bytes as they come. Several: whole lines,
// each with `<rank>: ` before it; a line longer than the limit is given in pieces, and a traceback
// that came before is counted. For a terminal
// every byte passes the TerminalFilter; otherwise bytes are not changed.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "cli/client/repeated_traceback.h"
#include "cli/terminal/escape.h"
#include "scheduler/model/ids.h"

namespace muster {

class OutputMerger {
 public:
  // One rank's share of memory: with 1,000 ranks writing without a newline, 64 MiB.
  static constexpr std::size_t line_limit_bytes = 64 * 1024;

  struct Style {
    bool prefix = false;
    bool terminal = false;
    bool color = false;
  };
  using Write = std::function<void(std::string_view)>;

  OutputMerger(Style style, Write write) : style_(style), write_(std::move(write)) {}

  void feed(RankId rank, std::string_view bytes);
  // The end of these ranks' output: unfinished lines are given, and ended where lines are merged.
  void finish();
  // Whether another writer may begin on a line of its own.
  bool at_line_start() const { return at_line_start_; }
  // Whether the terminal is in a colour that a rank chose, which another writer turns off first.
  bool leaves_color() const;

 private:
  struct Rank {
    TerminalFilter filter;
    std::string line;  // unfinished
  };

  void pass(std::string_view bytes);
  void merge(RankId rank, Rank& state, std::string_view bytes);
  void end_line(RankId rank, std::string_view line);
  void emit_line(RankId rank, std::string_view line);

  Style style_;
  Write write_;
  std::map<RankId, Rank> ranks_;
  RepeatedTraceback tracebacks_;
  std::string out_;
  bool at_line_start_ = true;
};

}  // namespace muster

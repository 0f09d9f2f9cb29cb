// What ranks say, merged for one reader. One rank: its bytes as they come. Several: whole lines,
// each with `<rank>: ` before it; a line longer than the limit is given in pieces, and a traceback
// that came before is counted. For a terminal every byte passes the TerminalFilter; otherwise bytes
// are not changed.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/terminal/document.h"
#include "cli/terminal/escape.h"
#include "scheduler/model/ids.h"

namespace muster {

// Python tracebacks among the merged lines of several ranks: one that was shown before is counted
// instead of shown again, so that 200 ranks with one mistake do not bury it. A traceback is held
// back until its last line, the exception, has come. Pure; memory is bounded.
class RepeatedTraceback {
 public:
  using Emit = std::function<void(RankId, std::string_view line)>;

  void feed(RankId rank, std::string_view line, const Emit& emit);
  // The end of the output: what is held back, and a line for each traceback that came again.
  void finish(const Emit& emit);

 private:
  static constexpr std::size_t lines_held = 200;  // a longer one is shown as it comes
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
  void begin_line() { at_line_start_ = true; }  // somebody else has ended that line
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

// What ranks said as a result for machines: `[{attempt, rank, text}]`, a line of output each, in
// the order in which they are read. A line that is longer than the limit is given in pieces.
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

// Reads the logs of a job's ranks as they grow: files and attempts that appear later, any number of
// ranks without a descriptor held for each, never more than one block in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/terminal/document.h"
#include "cli/terminal/escape.h"
#include "scheduler/model/ids.h"

namespace muster {

struct LogSelection {
  std::optional<AttemptId> attempt;        // absent: all, in order
  std::optional<std::set<RankId>> ranks;   // absent: all
  std::optional<std::int64_t> tail_lines;  // of each file that is there at the first look
  std::optional<AttemptId> first_attempt;  // skip older ones
};

class LogFollower {
 public:
  using Sink = std::function<void(AttemptId, RankId, std::string_view)>;

  LogFollower(std::filesystem::path job_directory, LogSelection selection);

  // Gives everything appended since the last call to `sink`, at most one block of each rank in
  // turn, until nothing is left. True when something came. An attempt's logs end before the next
  // begins.
  bool poll(const Sink& sink);
  std::optional<AttemptId> attempt() const { return attempt_; }

 private:
  bool read_attempt(const Sink& sink);
  bool read_block(RankId rank, const Sink& sink);
  void find_files();
  std::optional<AttemptId> next_attempt() const;
  std::filesystem::path directory_of(AttemptId attempt) const;
  std::filesystem::path file_of(RankId rank) const;

  std::filesystem::path job_directory_;
  LogSelection selection_;
  std::optional<AttemptId> attempt_;
  std::map<RankId, std::int64_t> files_;  // bytes given so far
  std::string block_;
  bool first_look_ = true;
};

// The attempts that have a directory, in order.
std::set<AttemptId> attempts_on_disk(const std::filesystem::path& job_directory);

// The last `lines` lines of the file, at most 64 KiB of them; empty when there are none. Read from
// the back: cheap for logs of any size.
std::string last_lines_of_file(const std::filesystem::path& file, std::int64_t lines);

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

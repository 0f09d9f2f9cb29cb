// A regular expression of a restart rule: compiled once, searched in one line of output at a time,
// in time linear in both, whatever the pattern and the line. The syntax is RE2's: no back
// references, no look-around. Immutable, any thread. Only pattern.cpp sees the library.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.h"

namespace re2 {
class RE2;
}  // namespace re2

namespace muster {

class Pattern {
 public:
  // The Error says what is wrong and at which part of the text.
  static Result<Pattern> compile(const std::string& text);

  // Anywhere in the line, `^` and `$` being its ends. What follows `line_limit_bytes` is not seen.
  bool found_in(std::string_view line) const;
  // What its named groups hold there; empty: it is not found.
  std::map<std::string, std::string_view> named_in(std::string_view line) const;

 private:
  explicit Pattern(std::shared_ptr<const re2::RE2> regex) : regex_(std::move(regex)) {}
  std::shared_ptr<const re2::RE2> regex_;
};

// Many patterns, searched in one pass: a thousand ranks that fail together would otherwise each be
// asked dozens of them one by one.
class PatternSet {
 public:
  // A text that is no pattern is never found.
  explicit PatternSet(const std::vector<std::string>& texts);
  ~PatternSet();

  // For each text whether it can be in one of the lines; one that is not marked is in none.
  std::vector<bool> may_be_in(const std::vector<std::string>& lines) const;

 private:
  struct Automaton;
  std::size_t size_;
  std::unique_ptr<Automaton> automaton_;
};

}  // namespace muster
